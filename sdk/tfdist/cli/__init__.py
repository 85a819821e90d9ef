"""The command `tfdist`."""
