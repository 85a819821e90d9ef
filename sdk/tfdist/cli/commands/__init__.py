"""Implementations of the commands: `execute` returns the exit code. `tfdist.cli.app` imports them on demand."""
