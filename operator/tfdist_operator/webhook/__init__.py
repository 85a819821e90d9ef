"""The admission webhook: its server and certificate, and the review of jobs and sweeps."""
