"""A heartbeat file that cannot be used is reported: to its launcher, a process without one is silent."""

import os
from pathlib import Path

import pytest

from tfdist_trainer import heartbeat, standby
from tfdist_trainer.errors import StorageError
from tfdist_trainer.heartbeat import HEARTBEAT_ENV


@pytest.fixture(params=["missing", "short"])
def environ(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The environment of a process whose heartbeat file was removed or cut."""
    monkeypatch.setattr(heartbeat, "_writers", [])
    path = tmp_path / "heartbeat"
    if request.param == "short":
        path.write_bytes(b"x")
    return os.environ | {HEARTBEAT_ENV: str(path)}


def test_a_process_without_a_heartbeat_reports_that_and_goes_on(
    environ: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert heartbeat.attach(environ) is None
    line = capsys.readouterr().err
    assert line.startswith(f"tfdist: {environ[HEARTBEAT_ENV]}: cannot be used (")
    assert "its launcher gets no reports" in line


def test_a_standby_process_without_a_heartbeat_does_not_start_by_itself(
    environ: dict[str, str], tmp_path: Path
) -> None:
    with pytest.raises(StorageError, match=r"standby process of round 3: its heartbeat .* cannot be used"):
        standby.start_barrier_from(environ | {standby.START_BARRIER_ENV: str(tmp_path / "fifo")}, 3)


def test_a_process_without_a_launcher_reports_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(heartbeat, "_writers", [])
    assert heartbeat.attach({}) is None
    assert standby.start_barrier_from({}, 0) is None
    assert capsys.readouterr().err == ""
