"""Messages about the replicas of a run without output; pure but for `listening_ports`.

A script imports TensorFlow, connects and compiles for up to minutes without a line, and a gang that lacks a member
waits for it silently. Without a report, output and listening ports are all that is known; else the steps and stacks of
all replicas are.
"""

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from tfdist.contract import TF_CONFIG_ENV
from tfdist.contract_reports import ProgressReport
from tfdist.progress import duration
from tfdist.restarts.stall import whereabouts

FIRST_SECONDS: Final = 30.0
FIRST_REPORTING_SECONDS: Final = 60.0
"""Of replicas that report their progress: a step may take long, and the progress shows the last one."""
_LISTEN: Final = "0A"
"""State of a listening socket in `/proc/net/tcp` (`proc(5)`)."""


class SilenceDetector:
    """The time of the last output or progress; a silence is reported after 30 s or 60 s, and each time it has doubled.

    One silent replica does not count: often only the chief prints.
    """

    def __init__(self, now: float) -> None:
        self._since, self._next = now, 0.0

    def on_output(self, now: float) -> None:
        """Record output, progress, or the start of a replica."""
        self._since, self._next = now, 0.0

    def due(self, now: float, *, reporting: bool = False) -> float | None:
        """Return the seconds of a silence that is to be reported now, else None.

        Args:
            now: the time in seconds.
            reporting: whether the program reports its progress.
        """
        seconds, limit = now - self._since, self._next or (FIRST_REPORTING_SECONDS if reporting else FIRST_SECONDS)
        if seconds < limit:
            return None
        while limit <= seconds:
            limit *= 2
        self._next = limit
        return seconds


def standstill_message(seconds: float, reports: Mapping[str, ProgressReport | None], stacks: str) -> str:
    """Return a message about replicas that neither print nor make progress.

    Args:
        seconds: for how long.
        reports: by name of the running replica; None of one that has given none.
        stacks: path of the file with the stacks of all replicas.
    """
    where = ", ".join(
        f"{name} {'gives no report' if report is None else whereabouts(report)}" for name, report in reports.items()
    )
    return f"no output and no progress for {duration(seconds)}: {where}; {stacks} shows where they are"


def silence_message(seconds: float, running: Collection[str], unreachable: Collection[str]) -> str:
    """Return a message about silent replicas; `unreachable` are those that do not listen on their TensorFlow port."""
    text = (
        f"no output for {duration(seconds)}, since the last line or start of a replica; running: {', '.join(running)}"
    )
    if unreachable:
        verb = "does" if len(unreachable) == 1 else "do"
        text += f"; {', '.join(unreachable)} {verb} not listen on the address in TF_CONFIG yet"
    return text


def tensorflow_port(environment: Mapping[str, str]) -> int | None:
    """Return the port of a replica's own address in `TF_CONFIG`; None without one."""
    try:
        config = json.loads(environment[TF_CONFIG_ENV])
        address = config["cluster"][config["task"]["type"]][config["task"]["index"]]
        return int(str(address).rpartition(":")[2])
    except (KeyError, IndexError, TypeError, ValueError):
        return None


def listening_ports(tables: Collection[Path] = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))) -> set[int]:
    """Return the TCP ports of this machine on which a process listens, without a connection to any of them."""
    ports = set()
    for table in tables:
        if table.exists():
            rows = [row.split() for row in table.read_text(encoding="ascii").splitlines()[1:]]
            ports |= {int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == _LISTEN}
    return ports
