"""The status of a job: conditions, counts, progress, and the words for people. Pure."""
