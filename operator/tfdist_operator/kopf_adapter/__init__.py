"""The adapter between kopf and the controller: kopf's session, and the watch of jobs."""
