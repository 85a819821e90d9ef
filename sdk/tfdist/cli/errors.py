"""What a command stops at, in words for the person at the terminal."""

from typing import NamedTuple


class Position(NamedTuple):
    """A place in a file, counted from 1 as editors do."""

    line: int
    column: int


class CommandError(Exception):
    """The command cannot do what it was asked to; the message is all that the user needs."""


class DocumentError(CommandError):
    """A file that cannot be read, or that does not hold documents: where, and what is wrong with it."""

    def __init__(self, source: str, message: str, position: Position | None = None) -> None:
        where = f"{source}:{position.line}:{position.column}" if position else source
        super().__init__(f"{where}: {message}")
        self.source, self.message, self.position = source, message, position
