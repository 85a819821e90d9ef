"""A local run whose replicas print nothing reports that, and which of them does not listen yet."""

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
    """Processes that run until `ended_after` seconds of the simulated clock, without a line of output."""

    def __init__(self, clock: "Clock", directory: RunDirectory, ended_after: float) -> None:
        self._clock, self._directory, self._ended_after = clock, directory, ended_after
        self.running: list[str] = []

    def environment(self, replica: Any) -> dict[str, str]:
        return dict(replica.environment)

    def start(self, replica: Any) -> None:
        self._directory.log(replica.name).touch()
        self.running.append(replica.name)

    def ended(self) -> dict[str, int]:
        if self._clock.now < self._ended_after:
            return {}
        codes, self.running = dict.fromkeys(self.running, 0), []
        return codes


class Clock:
    """The module `time` of the engine: a sleep advances the clock at once."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Console:
    """Keeps messages."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def message(self, text: str) -> None:
        self.messages.append(text)

    def log(self, name: str, lines: Any) -> None: ...

    def progress(self, phase: str, report: Any) -> None: ...

    def close(self) -> None: ...


class Interrupts:
    """No signal arrives."""

    count = 0


def test_a_silence_is_reported_while_the_replicas_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given two workers that print nothing for 70 s, when the job runs, then 30 and 60 s are reported."""
    clock, console, directory = Clock(), Console(), RunDirectory(tmp_path)
    monkeypatch.setattr(engine, "time", clock)
    processes: Any = Processes(clock, directory, ended_after=70)
    interrupts: Any = Interrupts()
    local = prepared(alone(command=["python", "train.py"], worker={"replicas": 2}))
    Engine(local, directory, console, processes, interrupts).run()
    found = [text.partition(",")[0] for text in console.messages if text.startswith("no output for ")]
    assert found == ["no output for 30s", "no output for 1m"]


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
    clock, console, directory = Clock(), Console(), RunDirectory(tmp_path)
    monkeypatch.setattr(engine, "time", clock)
    monkeypatch.setattr(engine, "update_reports", reports_until(100, clock))
    known = {"worker-0": report(10, 60).content, "worker-1": None}
    monkeypatch.setattr(engine, "reports_and_stacks", lambda _: (known, "== worker-0\nin all_reduce"))
    processes: Any = Processes(clock, directory, ended_after=300)
    interrupts: Any = Interrupts()
    local = prepared(alone(command=["python", "train.py"], worker={"replicas": 2}))
    Engine(local, directory, console, processes, interrupts).run()
    stacks = directory.path / "stacks.txt"
    where = "worker-0 is training at step 10 of 60, worker-1 gives no report"
    found = [text.partition(": ") for text in console.messages if text.startswith("no output")]
    assert [text for _, _, text in found] == 2 * [f"{where}; {short(stacks)} shows where they are"]
    begins = [begin[: len("no output and no progress for 1m")] for begin, _, _ in found]
    assert begins == ["no output and no progress for 1m", "no output and no progress for 2m"]
    assert stacks.read_text() == "== worker-0\nin all_reduce"
