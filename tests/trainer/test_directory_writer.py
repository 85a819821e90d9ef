"""Two jobs with one checkpoint directory, without TensorFlow: the later one never takes it from a job that runs."""

from pathlib import Path

import pytest
from support.checkpoint_writers import Running

from tfdist.contract import ExitCode, Role
from tfdist_trainer import errors, writer_heartbeat
from tfdist_trainer.checkpoint import CheckpointWriter, DataCursor
from tfdist_trainer.errors import CheckpointUnwritableError, ConfigurationError
from tfdist_trainer.fence import Fence, Writer


def writer(name: str, *, uid: str = "", namespace: str = "ml", cluster: str | None = None, attempt: int = 0) -> Writer:
    uid, host = uid or f"uid-of-{name}", f"{name}-worker-0"
    place = {"name": name, "namespace": namespace, "cluster": cluster}
    return Writer(job=uid, **place, role=Role.WORKER, index=0, attempt=attempt, host=host)


def never(_: float) -> None:
    raise AssertionError("there is nothing to wait for")


def test_a_directory_whose_writer_runs_is_rejected_with_the_name_of_its_job(tmp_path: Path) -> None:
    first = Fence(tmp_path, writer("first"))
    first.claim()
    running = Running(tmp_path, beats=1000)
    with pytest.raises(ConfigurationError) as caught:
        Fence(tmp_path, writer("second"), running.pause).claim()
    failure = errors.classify(caught.value)
    assert failure.exit_code is ExitCode.CONFIGURATION, "permanent: a restart would find the same"
    assert failure.message == (
        f"checkpoint.directory: {tmp_path} is written by attempt 0 of job ml/first (UID uid-of-first, worker-0 on "
        "first-worker-0), which is running; wait for its end, delete it, or choose another directory"
    )
    first.check()  # the older job goes on


def test_a_job_that_was_killed_hands_the_directory_over_when_its_heartbeat_stays_unchanged(tmp_path: Path) -> None:
    killed = Fence(tmp_path, writer("first"))
    killed.claim()
    ending = Running(tmp_path, beats=30)
    Fence(tmp_path, writer("second"), ending.pause).claim()
    assert ending.polls == 30 + writer_heartbeat.STALE_POLLS
    with pytest.raises(CheckpointUnwritableError, match=r"belongs to attempt 0 of job ml/second .* this is .*first"):
        killed.check()


def test_a_training_that_has_finished_hands_the_directory_over_at_once(tmp_path: Path) -> None:
    finished = CheckpointWriter(tmp_path, keep=3, writer=writer("first"))
    finished.claim()
    report = finished.write(DataCursor(step=1), "2026-01-02T03:04:05.678Z", lambda _: None)
    finished.finish(report, total_steps=1)
    assert not list(tmp_path.glob("*.heartbeat"))
    Fence(tmp_path, writer("second"), never).claim()


@pytest.mark.parametrize(
    "next_writer",
    [
        pytest.param(writer("first", attempt=1), id="the next attempt of the same job"),
        pytest.param(writer("first", uid="uid-after-deletion"), id="a job that was created again under its name"),
    ],
)
def test_a_restart_and_a_new_job_of_the_same_name_do_not_wait(next_writer: Writer, tmp_path: Path) -> None:
    Fence(tmp_path, writer("first")).claim()
    Fence(tmp_path, next_writer, never).claim()


def test_the_same_name_in_another_namespace_is_another_job(tmp_path: Path) -> None:
    Fence(tmp_path, writer("first")).claim()
    with pytest.raises(ConfigurationError, match="job ml/first"):
        Fence(tmp_path, writer("first", uid="x", namespace="other"), Running(tmp_path, 1000).pause).claim()


def test_the_same_namespace_and_name_in_another_cluster_is_another_job(tmp_path: Path) -> None:
    first = Fence(tmp_path, writer("first", cluster="east"))
    first.claim()
    other = writer("first", uid="x", cluster="west")
    with pytest.raises(ConfigurationError, match=r"job ml/first .*, which is running in another cluster; wait for"):
        Fence(tmp_path, other, Running(tmp_path, 1000).pause).claim()
    first.check()  # the older job goes on
    with pytest.raises(ConfigurationError, match="another cluster"):
        Fence(tmp_path, writer("first", uid="x"), Running(tmp_path, 1000).pause).claim()


@pytest.mark.parametrize("recorded", [None, "east"])
def test_a_new_job_of_the_same_name_in_the_same_cluster_does_not_wait(recorded: str | None, tmp_path: Path) -> None:
    """The controller may not have known the cluster when the record was written."""
    Fence(tmp_path, writer("first", cluster=recorded)).claim()
    Fence(tmp_path, writer("first", uid="uid-after-deletion", cluster="east"), never).claim()


def test_a_later_attempt_does_not_wait_when_the_ca_of_its_cluster_was_replaced(tmp_path: Path) -> None:
    Fence(tmp_path, writer("first", cluster="before")).claim()
    Fence(tmp_path, writer("first", cluster="after", attempt=1), never).claim()


def test_the_heartbeat_of_a_job_is_gone_when_another_has_claimed(tmp_path: Path) -> None:
    """Otherwise the files of all jobs that were killed would remain, and a late writer would bring its file back."""
    late = Running(tmp_path, beats=0)
    Fence(tmp_path, writer("first")).claim()
    Fence(tmp_path, writer("second"), late.pause).claim()
    assert [path.name for path in tmp_path.glob("*.heartbeat")] == ["writer-uid-of-second.heartbeat"]
    with pytest.raises(FileNotFoundError):
        late.heartbeat.beat()


def test_a_uid_on_shared_storage_cannot_name_a_file_elsewhere(tmp_path: Path) -> None:
    directory = tmp_path / "checkpoints"
    directory.mkdir()
    outside = tmp_path / "writer-x.heartbeat"
    outside.write_text("1")
    assert writer_heartbeat.has_ended(directory, "/../../writer-x", never)
    assert outside.exists()
