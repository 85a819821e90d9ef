"""Standard error of a command that is not Python: copied on, and its end kept as the cause of a failure."""

import contextlib
import os
from pathlib import Path
from typing import Final

from tfdist.failure_text import cause_in
from tfdist_trainer.termination import write_unless_present

_TAIL_BYTES: Final = 4096
_READ_BYTES: Final = 64 * 1024
_STANDARD_ERROR: Final = 2


class CapturedErrors:
    """A pipe for the standard error of one process, whose content is copied to that of this process."""

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._reading, False)
        self._end = b""

    def fileno(self) -> int:
        """Return the descriptor to wait for."""
        return self._reading

    def attach(self) -> None:
        """Make the pipe the standard error of this process, the fork."""
        os.close(self._reading)
        os.dup2(self._writing, _STANDARD_ERROR)
        os.close(self._writing)

    def begin(self) -> None:
        """Leave the writing end to the fork."""
        os.close(self._writing)

    def copy(self) -> bool:
        """Copy what the process has written; return whether it may write more."""
        while True:
            try:
                data = os.read(self._reading, _READ_BYTES)
            except BlockingIOError:
                return True
            if not data:
                return False
            self._end = (self._end + data)[-_TAIL_BYTES:]
            with contextlib.suppress(OSError):  # the log may have no reader any more, which must not end the process
                while data:
                    data = data[os.write(_STANDARD_ERROR, data) :]

    def finish(self, message: Path | None) -> None:
        """Copy what remains, and write its cause as the termination message if there is none; None writes nothing."""
        self.copy()
        os.close(self._reading)
        cause = cause_in(self._end.decode("utf-8", "replace"))
        if message is not None and cause:
            write_unless_present(message, cause)
