"""Requests for the objects of jobs, which the caches complete."""
