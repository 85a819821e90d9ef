"""Where kopf meets the controller: its session, and the watch of jobs."""
