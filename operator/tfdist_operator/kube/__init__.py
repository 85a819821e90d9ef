"""Everything that speaks with the API server, and the stores and queue that are fed by it."""
