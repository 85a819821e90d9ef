"""What a local run shows while its replicas print nothing, and what it does not show after they have ended."""

from pathlib import Path
from typing import Any

import pytest
from support.factories import NOW, report
from support.local_plans import alone, prepared

from tfdist.api.status import TFDistJobStatus
from tfdist.local import engine
from tfdist.local.engine import Engine
from tfdist.local.run_directory import RunDirectory, short
from tfdist.observed.cadence import with_report
from tfdist.observed.job_view import TimestampedReport
from tfdist.timestamps import rfc3339


class Processes:
    """Processes that run until so many seconds of the simulated clock, without a line of output."""

    def __init__(self, clock: "Clock", directory: RunDirectory, ends: dict[str, float], others_end: float) -> None:
        self._clock, self._directory, self._ends, self._others_end = clock, directory, ends, others_end
        self.running: list[str] = []

    def environment(self, replica: Any) -> dict[str, str]:
        return dict(replica.environment)

    def start(self, replica: Any) -> None:
        self._directory.log(replica.name).touch()
        self.running.append(replica.name)

    def ended(self) -> dict[str, int]:
        ended = [name for name in self.running if self._clock.now >= self._ends.get(name, self._others_end)]
        self.running = [name for name in self.running if name not in ended]
        return dict.fromkeys(ended, 0)


class Clock:
    """The module `time` of the engine: a sleep advances the clock at once."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Console:
    """Keeps messages and the steps of the progress."""

    def __init__(self) -> None:
        self.messages: list[str] = []
        self.steps: list[int | None] = []

    def message(self, text: str) -> None:
        self.messages.append(text)

    def log(self, name: str, lines: Any) -> None: ...

    def progress(self, _: str, report: Any) -> None:
        self.steps.append(report.step if report else None)

    def close(self) -> None: ...


class Interrupts:
    """No signal arrives."""

    count = 0


def test_a_silence_is_reported_while_the_replicas_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given two workers that print nothing for 70 s, when the job runs, then 30 and 60 s are reported."""
    console, _ = run_of(70, {"worker": {"replicas": 2}}, tmp_path, monkeypatch)
    found = [text.partition(",")[0] for text in console.messages if text.startswith("no output for ")]
    assert found == ["no output for 30s", "no output for 1m"]


def test_no_progress_follows_the_end_of_the_replica_that_reports_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given a report of step 64, when worker 0 ends after 5 s, then its last line is no longer followed by step 64."""
    stale = report(64, 96)

    def update(runtime: Any, *_: Any) -> bool:
        runtime.report = stale
        return False

    monkeypatch.setattr(engine, "update_reports", update)
    console, _ = run_of(20, {"worker": {"replicas": 2}, "successPolicy": "AllWorkers"}, tmp_path, monkeypatch, first=5)
    assert {*console.steps} == {None, 64}
    assert console.steps[-1] is None, "worker 1 goes on"


def reports_until(hangs_at: float, clock: Clock) -> Any:
    """Return a poll of worker 0, which completes a step each 10 s until it hangs."""

    def update(runtime: Any, *_: Any) -> bool:
        content = report(int(min(clock.now, hangs_at) // 10), 60).content
        before = runtime.cadence
        runtime.cadence = with_report(before, TFDistJobStatus, content, rfc3339(NOW))
        runtime.report = TimestampedReport(content, rfc3339(NOW))
        return bool(runtime.cadence != before)

    return update


def test_a_gang_that_reports_steps_and_hangs_in_the_first_epoch_is_named_with_steps_and_stacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given two workers that print nothing and hang after 100 s, when 300 s pass, then 60, 120 s are reported."""
    clock = Clock()
    monkeypatch.setattr(engine, "update_reports", reports_until(100, clock))
    known = {"worker-0": report(10, 60).content, "worker-1": None}
    monkeypatch.setattr(engine, "reports_and_stacks", lambda _: (known, "== worker-0\nin all_reduce"))
    console, directory = run_of(300, {"worker": {"replicas": 2}}, tmp_path, monkeypatch, clock=clock)
    stacks = directory.path / "stacks.txt"
    where = "worker-0 is training at step 10 of 60, worker-1 gives no report"
    found = [text.partition(": ") for text in console.messages if text.startswith("no output")]
    assert [text for _, _, text in found] == 2 * [f"{where}; {short(stacks)} shows where they are"]
    begins = [begin[: len("no output and no progress for 1m")] for begin, _, _ in found]
    assert begins == ["no output and no progress for 1m", "no output and no progress for 2m"]
    assert stacks.read_text() == "== worker-0\nin all_reduce"


def run_of(
    seconds: float,
    spec: dict[str, Any],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    first: float | None = None,
    clock: Clock | None = None,
) -> tuple[Console, RunDirectory]:
    """Run a job of so many seconds, and return its console and directory; worker 0 may end at a time of its own."""
    clock, console, directory = clock or Clock(), Console(), RunDirectory(folder)
    monkeypatch.setattr(engine, "time", clock)
    processes: Any = Processes(clock, directory, {"worker-0": first or seconds}, seconds)
    interrupts: Any = Interrupts()
    Engine(prepared(alone(command=["python", "train.py"], **spec)), directory, console, processes, interrupts).run()
    return console, directory
