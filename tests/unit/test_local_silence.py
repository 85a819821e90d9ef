"""A local run whose replicas print nothing reports that, and which of them does not listen yet."""

from pathlib import Path
from typing import Any

import pytest
from support.local_plans import alone, prepared

from tfdist.local import engine
from tfdist.local.engine import Engine
from tfdist.local.run_directory import RunDirectory


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
