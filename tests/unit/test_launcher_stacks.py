"""The launcher reads the stacks of its process, which writes them in parts without an end mark."""

from types import SimpleNamespace

import pytest

from tfdist_launch import launcher


def stacks_of(process: list[str], monkeypatch: pytest.MonkeyPatch) -> str:
    """Return what the launcher reads of a process whose stacks are one of the texts at each poll, the last for ever."""
    monkeypatch.setattr(launcher, "STACKS_POLL_SECONDS", 0.0)
    polls = iter(process)
    heartbeat = SimpleNamespace(stacks=lambda: next(polls, process[-1]))
    supervisor = SimpleNamespace(heartbeat=heartbeat, request_stacks=lambda: True)
    return launcher.Launcher._dump_stacks(SimpleNamespace(_supervisor=supervisor))  # type: ignore[arg-type]


def test_stacks_that_a_process_writes_with_pauses_are_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = ["", "", "Thread 1:\n", "Thread 1:\n", "Thread 1:\n", "Thread 1:\n  File a\n"]

    assert stacks_of(parts, monkeypatch) == "Thread 1:\n  File a\n"


def test_a_process_that_writes_no_stacks_is_reported_as_stopped_or_blocked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launcher, "STACKS_TIMEOUT_SECONDS", 0.1)

    assert "does not answer" in stacks_of([""], monkeypatch)
