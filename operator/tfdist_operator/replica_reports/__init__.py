"""Reports of replicas: requested from their pods, limited in size and time, and untrusted."""
