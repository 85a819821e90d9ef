"""What the API server said, reduced to what decisions need. Pure."""
