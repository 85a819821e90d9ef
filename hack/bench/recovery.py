"""How long training pauses when a process is killed: `make bench-recovery`.

Two workers of this machine train under launchers. Ten times, each of them in turn, the training process is killed with
SIGKILL, and the time is taken until the gang has finished steps again. For comparison, in the same gang without
launchers both processes are started again, as the containers of new pods would be, without the time of scheduling and
images.
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

from support.launchers import Launchers, program_of, tf_environ, training_job, trains
from support.ports import free_ports

RESULTS: Final = Path(__file__).with_name("recovery.json")
COMMAND: Final = ("--", "python", "-m", "tfdist_trainer")
MIB: Final = 1 << 20
TURN_SECONDS: Final = 5.0
EVENTS: Final = ("process-exited", "round-failed", "round", "rendezvous-complete", "joined", "restored", "train")
"""What launchers and programs log on the way from a kill to the next step; `recovery_svg.py` draws it."""
_LINE: Final = re.compile(r"^(\d{4}-\S+Z) (\S+)", re.MULTILINE)


def main() -> int:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description="Measures how long training pauses after a kill")
    parser.add_argument("--kills", type=int, default=10, help="default: %(default)s")
    parser.add_argument("--starts", type=int, default=3, help="new starts to compare with; default: %(default)s")
    parser.add_argument("--turns", type=int, default=8, help="of the step's time each; default: %(default)s")
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        recovery_seconds, memory, events = in_place(Path(folder), options.kills)
    with tempfile.TemporaryDirectory() as folder:
        start_seconds = start_again(Path(folder), options.starts)
    with tempfile.TemporaryDirectory() as folder:
        steps, processor = compare_steps(Path(folder), options.turns)
    document = {
        "machine": {"cpus": os.cpu_count(), "loadBefore": round(load, 1)},
        "inPlaceSeconds": figures(recovery_seconds),
        "newProcessesSeconds": figures(start_seconds),
        "memoryMiB": memory,
        "stepMicros": steps,
        "stepProcessorMicros": processor,
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
    durations: list[float] = []
    try:
        trains(launchers, 0, beyond=100)
        memory = memory_of(launchers)
        for number in range(kills):
            begun, killed_at = time.monotonic(), datetime.now(UTC)
            os.kill(program_of(launchers, 1 - number % 2), signal.SIGKILL)
            trains(launchers, number + 1)
            durations.append(time.monotonic() - begun)
            time.sleep(2.0)  # so that each kill meets a gang that trains
    finally:
        launchers.stop()
    return durations, memory, timeline(launchers, killed_at)


def timeline(launchers: Launchers, since: datetime) -> list[dict[str, Any]]:
    """Return by whom and how many seconds after `since` each event of `EVENTS` was first logged."""
    events = []
    for rank in sorted(launchers.processes):
        log = (launchers.folder / f"out-{rank}").read_text(encoding="utf-8")
        times: dict[str, float] = {}
        for time_text, event in _LINE.findall(log):
            seconds = (datetime.fromisoformat(time_text) - since).total_seconds()
            if seconds >= 0 and event in EVENTS:
                times.setdefault(event, round(seconds, 3))
        events += [{"member": f"worker-{rank}", "event": event, "seconds": at} for event, at in times.items()]
    return events


def start_again(folder: Path, starts: int) -> list[float]:
    """Return the seconds from the kill of both processes until two new ones have finished steps."""
    durations: list[float] = []
    for attempt in range(starts + 1):
        begun = time.monotonic()
        gang = Plain(folder, attempt)
        try:
            gang.trains()
            if attempt:
                durations.append(time.monotonic() - begun)
        finally:
            gang.stop()
    return durations


def compare_steps(folder: Path, turns: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the microseconds of a step with and without launchers, then its microseconds of processor time.

    The two take turns, in new processes each time.
    """
    micros: dict[str, list[float]] = {"launched": [], "without": []}
    processor: dict[str, list[float]] = {"launched": [], "without": []}
    for turn in range(turns):
        for name in list(micros) if turn % 2 else list(reversed(micros)):
            inside = folder / f"{name}-{turn}"
            inside.mkdir()
            gang = new_gang(inside, backoff_limit=0) if name == "launched" else Plain(inside, 0)
            try:
                step, busy = step_micros(gang)
            finally:
                gang.stop()
            micros[name].append(step)
            processor[name].append(busy)
    return {n: figures(found) for n, found in micros.items()}, {n: figures(found) for n, found in processor.items()}


def step_micros(gang: "Launchers | Plain") -> tuple[float, float]:
    """Return the microseconds of a step, and its processor time in all processes of the gang.

    Taken over some seconds, once it trains, by the times of steps in the gang's reports: a report is a
    little old, and under launchers a little older.
    """
    launchers = gang.launchers if isinstance(gang, Plain) else gang
    trains(launchers, 0, beyond=200)
    first, begun, used = reported_step(launchers), time.monotonic(), processor_seconds(gang)
    time.sleep(TURN_SECONDS)
    busy = (processor_seconds(gang) - used) / (time.monotonic() - begun)
    last = reported_step(launchers)
    micros = 1e6 * (last[1] - first[1]).total_seconds() / (last[0] - first[0])
    return micros, busy * micros


def reported_step(launchers: Launchers) -> tuple[int, datetime]:
    """Return the last step that the gang reports, and its time."""
    report = launchers.report()
    if report is None or report.step is None or report.step_at is None:
        raise RuntimeError(f"the gang reports no step: {launchers.output()}")
    return report.step, datetime.fromisoformat(report.step_at)


def processor_seconds(gang: "Launchers | Plain") -> float:
    """Return the processor time that the processes of `gang` have had."""
    if isinstance(gang, Plain):
        return sum(used_by(pid) for pid in gang.pids)
    programs = [program_of(gang, rank) for rank in gang.processes]
    launchers = [process.pid for process in gang.processes.values()]
    return sum(used_by(pid) for pid in [*launchers, *(parent_of(program) for program in programs), *programs])


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
                env=inside.environ(rank, attempt=attempt, launch=None),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                # As under launchers, and as containers are scheduled: Linux gives every session its share of the
                # processors, and two processes that exchange gradients ran a tenth faster within one.
                start_new_session=True,
            )
            for rank in (0, 1)
        ]

    @property
    def pids(self) -> list[int]:
        """The processes."""
        return [process.pid for process in self._processes]

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
    for rank in (0, 1):
        launchers.start(rank)
    return launchers


def memory_of(launchers: Launchers) -> dict[str, int]:
    """Return the proportional set sizes of launcher, fork server and program of member 1."""
    launcher = launchers.processes[1].pid
    program = program_of(launchers, 1)
    processes = (("launcher", launcher), ("fork server", parent_of(program)), ("program", program))
    return {name: pss(pid) for name, pid in processes}


def used_by(pid: int) -> float:
    """Return the seconds of processor time that a process has had."""
    user, system = stat_of(pid)[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def parent_of(pid: int) -> int:
    """Return the process that has started `pid`."""
    return int(stat_of(pid)[1])


def stat_of(pid: int) -> list[str]:
    """Return the fields of proc_pid_stat(5) from the third on: state, parent and so on."""
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()


def pss(pid: int) -> int:
    """Return the proportional set size of a process in MiB: what is shared counts for each in part."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8")
    return next(int(line.split()[1]) * 1024 // MIB for line in text.splitlines() if line.startswith("Pss:"))


if __name__ == "__main__":
    sys.exit(main())
