"""The input pipeline: files by pattern, sharded over the gang, in batches of one static shape."""
