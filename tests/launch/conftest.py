"""Gangs of launchers around small scripts that need no TensorFlow."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.launchers import Launchers
from support.ports import free_ports

Launch = Callable[..., Launchers]

PRELUDE = """
import os, pathlib, signal, sys, time
folder, rank = pathlib.Path(os.environ["FOLDER"]), int(os.environ["RANK"])
number = int(os.environ["TFDIST_ROUND"])
def ready():
    new = folder / f".pid-{rank}-{number}"
    new.write_text(str(os.getpid()))
    new.rename(folder / f"pid-{rank}-{number}")
def wait_for_end():
    while not (folder / "end").exists():
        time.sleep(0.02)
"""


@pytest.fixture
def launch(tmp_path: Path) -> Iterator[Launch]:
    """A function that starts the launchers of a gang, but for `late` ones, around a script, or a command."""
    started: list[Launchers] = []

    def start(
        size: int = 2,
        *,
        script: str = "ready(); wait_for_end()",
        command: tuple[str, ...] = (),
        settings: dict[str, Any] | None = None,
        job: dict[str, Any] | None = None,
        late: frozenset[int] = frozenset(),
        standby: frozenset[int] = frozenset(),
        environ_of: Callable[[int], dict[str, str]] = lambda _: {},
        job_of: Callable[[int], dict[str, Any]] = lambda _: {},
    ) -> Launchers:
        file = tmp_path / "program.py"
        file.write_text(PRELUDE + script)
        whole = command or ("--cold", "--", sys.executable, "-S", str(file))
        ports = free_ports(2 * size)
        launchers = Launchers(
            tmp_path, whole, settings or {}, job or {}, ports[:size], ports[size:], environ_of, standby
        )
        started.append(launchers)
        for rank in set(range(size)) - late:
            launchers.start(rank, **job_of(rank))
        return launchers

    yield start
    for launchers in started:
        launchers.stop()
