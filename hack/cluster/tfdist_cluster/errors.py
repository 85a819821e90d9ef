"""The one error that a person sees: what was wrong, where, and what to do about it."""


class ClusterError(Exception):
    """Something this tool cannot go on without; its text is complete and is printed without a traceback."""


class CommandError(ClusterError):
    """A program that was started left with a status other than 0."""

    def __init__(self, command: str, status: int, output: str) -> None:
        self.status = status
        self.output = output
        tail = "\n".join("    " + line for line in output.strip().splitlines()[-15:])
        super().__init__(f"`{command}` left with status {status}" + (f":\n{tail}" if tail else ""))
