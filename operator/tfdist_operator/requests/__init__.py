"""The requests for jobs, sweeps and the objects that they own."""
