"""The status of a job: conditions, phase, counts, progress, and the columns of kubectl get. Pure."""
