"""The logs of a run on this machine."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from tfdist.client.local_run import LocalRun
from tfdist.local.logs import Tail

_POLL_SECONDS: Final = 0.2
_PREVIOUS: Final = ".previous"


class LocalLine(NamedTuple):
    """A line of a replica's log."""

    replica: str
    """Such as `worker-0`; `fetch` for the process that unpacks the code."""
    text: str


def read_logs(run: LocalRun, role: str | None, index: int | None, *, follow: bool) -> Iterator[LocalLine]:
    """Yield the lines of the logs of a run, with `follow` until it has ended."""
    tails: dict[str, Tail] = {}
    while True:
        ended = not follow or not run.is_alive()  # before the last lines are read
        for path in sorted((run.path / "logs").glob("*.log")):
            if path.stem not in tails and _is_wanted(path, role, index):
                tails[path.stem] = Tail(path)
        for name, tail in tails.items():
            yield from (LocalLine(name, text) for text in tail.lines(last=ended))
        if ended:
            return
        time.sleep(_POLL_SECONDS)


def _is_wanted(path: Path, role: str | None, index: int | None) -> bool:
    if path.stem.endswith(_PREVIOUS):
        return False
    own_role, _, own_index = path.stem.rpartition("-")
    return role in {None, own_role} and index in {None, int(own_index) if own_index.isdecimal() else None}
