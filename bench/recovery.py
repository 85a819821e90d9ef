"""How long training stands still when a program is killed: `make bench-recovery`.

Two workers of this machine train under launchers. Ten times, each of them in turn, the training program is killed with
SIGKILL, and the time is taken until the gang has finished steps again. Beside it the same gang without launchers: both
processes are started anew, as the containers of new pods would be, without what scheduling and images would add.
"""

import argparse
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from support.launchers import Launchers, program_of, tf_environ, training_job, trains, wait_for
from support.ports import free_ports

RESULTS: Final = Path(__file__).with_name("recovery.json")
COMMAND: Final = ("--", "python", "-m", "tfdist_trainer")
MIB: Final = 1 << 20
TURN_SECONDS: Final = 5.0
EVENTS: Final = ("program-ended", "round-ended", "round", "met", "joined", "restored", "train")
"""What launchers and programs log on the way from a kill to the next step; docs/recovery_svg.py draws it."""
_LINE: Final = re.compile(r"^(\d{4}-\S+Z) (\S+)", re.MULTILINE)


def main() -> int:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description="Measures how long training stands still after a kill")
    parser.add_argument("--kills", type=int, default=10, help="default: %(default)s")
    parser.add_argument("--starts", type=int, default=3, help="new starts to compare with; default: %(default)s")
    parser.add_argument("--turns", type=int, default=4, help="of the step's time each; default: %(default)s")
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        launched, memory, events = in_place(Path(folder), options.kills)
    with tempfile.TemporaryDirectory() as folder:
        anew = started_anew(Path(folder), options.starts)
    with tempfile.TemporaryDirectory() as folder:
        steps = steps_beside(Path(folder), options.turns)
    document = {
        "machine": {"cpus": os.cpu_count(), "loadBefore": round(load, 1)},
        "inPlaceSeconds": figures(launched),
        "newProcessesSeconds": figures(anew),
        "memoryMiB": memory,
        "stepMicros": steps,
        "timeline": events,
    }
    options.output.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    print(json.dumps({key: value for key, value in document.items() if key != "timeline"}, indent=2))
    return 0


def figures(seconds: list[float]) -> dict[str, Any]:
    """Return median, worst and all."""
    rounded = [round(value, 2) for value in seconds]
    return {"median": round(statistics.median(seconds), 2), "worst": max(rounded), "all": rounded}


def in_place(folder: Path, kills: int) -> tuple[list[float], dict[str, int], list[dict[str, Any]]]:
    """Return the seconds of each recovery, the memory of the processes, and what happened in the last recovery."""
    launchers = new_gang(folder, backoff_limit=10 * kills)
    taken: list[float] = []
    try:
        trains(launchers, 0, beyond=100)
        memory = memory_of(launchers)
        for number in range(kills):
            begun, killed = time.monotonic(), datetime.now(UTC)
            os.kill(program_of(launchers, 1 - number % 2), signal.SIGKILL)
            trains(launchers, number + 1)
            taken.append(time.monotonic() - begun)
            time.sleep(2.0)  # so that each kill meets a gang that trains
    finally:
        launchers.stop()
    return taken, memory, timeline(launchers, killed)


def timeline(launchers: Launchers, since: datetime) -> list[dict[str, Any]]:
    """Return by whom and how many seconds after `since` each event of `EVENTS` was first told."""
    found = []
    for seat in sorted(launchers.processes):
        log = (launchers.folder / f"out-{seat}").read_text(encoding="utf-8")
        told: dict[str, float] = {}
        for time_text, event in _LINE.findall(log):
            seconds = (datetime.fromisoformat(time_text) - since).total_seconds()
            if seconds >= 0 and event in EVENTS:
                told.setdefault(event, round(seconds, 3))
        found += [{"member": f"worker-{seat}", "event": event, "seconds": at} for event, at in told.items()]
    return found


def started_anew(folder: Path, starts: int) -> list[float]:
    """Return the seconds from the kill of both processes until two new ones have finished steps."""
    taken: list[float] = []
    for attempt in range(starts + 1):
        begun = time.monotonic()
        gang = Plain(folder, attempt)
        try:
            gang.trains()
            if attempt:
                taken.append(time.monotonic() - begun)
        finally:
            gang.stop()
    return taken


def steps_beside(folder: Path, turns: int) -> dict[str, Any]:
    """Return the microseconds of a step with and without launchers, by turns in new processes."""
    found: dict[str, list[float]] = {"launched": [], "without": []}
    for turn in range(turns):
        (folder / f"a{turn}").mkdir()
        (folder / f"b{turn}").mkdir()
        launchers = new_gang(folder / f"a{turn}", backoff_limit=0)
        try:
            found["launched"].append(step_micros(launchers))
        finally:
            launchers.stop()
        plain = Plain(folder / f"b{turn}", 0)
        try:
            found["without"].append(step_micros(plain.launchers))
        finally:
            plain.stop()
    return {name: figures(micros) for name, micros in found.items()}


def step_micros(launchers: Launchers) -> float:
    """Return the microseconds of a step of a gang that has begun to train, over some seconds."""
    first, begun = trains(launchers, 0, beyond=200), time.monotonic()
    time.sleep(TURN_SECONDS)
    last = trains(launchers, 0)
    return 1e6 * (time.monotonic() - begun) / (last - first)


class Plain:
    """Two workers without launchers."""

    def __init__(self, folder: Path, attempt: int) -> None:
        self._ports = free_ports(2)
        self._folder = folder
        inside = Launchers(
            folder, (), {}, training_job(folder, epochs=10**6), free_ports(2), self._ports, tf_environ(2)
        )
        self.launchers = inside
        self._processes = [
            subprocess.Popen(
                [sys.executable, "-m", "tfdist_trainer"],
                env=inside.environ(seat, attempt=attempt, launch=None),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            for seat in (0, 1)
        ]

    def trains(self) -> None:
        """Return when they take steps."""
        trains(self.launchers, 0)

    def stop(self) -> None:
        """Kill both."""
        for process in self._processes:
            process.kill()
            process.wait()


def new_gang(folder: Path, backoff_limit: int) -> Launchers:
    """Return two launchers that have been started."""
    ports = free_ports(4)
    job = training_job(folder, epochs=10**6)
    settings = {"backoffLimit": backoff_limit, "firstDelaySeconds": 0.0}
    launchers = Launchers(folder, COMMAND, settings, job, ports[:2], ports[2:], tf_environ(2))
    for seat in (0, 1):
        launchers.start(seat)
    return launchers


def memory_of(launchers: Launchers) -> dict[str, int]:
    """Return the proportional set sizes of launcher, warm process and program of member 1."""
    launcher = launchers.processes[1].pid
    program = program_of(launchers, 1)
    warm = int(wait_for(lambda: Path(f"/proc/{program}/stat").read_text().rpartition(")")[2].split()[1]))
    return {name: pss(pid) for name, pid in (("launcher", launcher), ("warm process", warm), ("program", program))}


def pss(pid: int) -> int:
    """Return the proportional set size of a process in MiB: what is shared counts for each in part."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8")
    return next(int(line.split()[1]) * 1024 // MIB for line in text.splitlines() if line.startswith("Pss:"))


if __name__ == "__main__":
    sys.exit(main())
