"""The client of the API server: requests, errors, fencing, connections, and the work queue."""
