"""Errors for users: what failed, where, and how to fix it."""


class ClusterError(Exception):
    """An error that ends the command; its message is complete and is printed without a traceback."""


class CommandError(ClusterError):
    """A program exited with a status other than 0."""

    def __init__(self, command: str, status: int, output: str) -> None:
        self.status = status
        self.output = output
        tail = "\n".join("    " + line for line in output.strip().splitlines()[-15:])
        super().__init__(f"`{command}` left with status {status}" + (f":\n{tail}" if tail else ""))
