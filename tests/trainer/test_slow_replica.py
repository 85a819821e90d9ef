"""A replica whose steps take longer than those of the others is named in the report of the leader, and no other is."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.polling import wait_for
from support.slowed_program import SECONDS

from tfdist.contract import Role

if TYPE_CHECKING:
    from trainer.replicas import Launch, Replicas

pytestmark = pytest.mark.trainer


def started(launch: "Launch", folder: Path, *seconds: float, **config: Any) -> "Replicas":
    """Start workers whose steps take so many seconds."""
    training = {"program": "support.slowed_program:Line", "config": {"batchSizePerReplica": 2} | config}
    environs = {index: {SECONDS: str(own)} for index, own in enumerate(seconds)}
    job = {"training": training, "logDirectory": str(folder), "checkpoint": None}
    return launch(len(seconds), config={}, job=job, environs=environs)


def test_the_worker_that_computes_longest_is_named_with_its_times(launch: "Launch", tmp_path: Path) -> None:
    """Given three workers of which one takes four times as long; then the leader names it, and the others wait."""
    gang = started(launch, tmp_path, 0.05, 0.2, 0.05, epochs=1_000_000)
    report = gang.progress_when(lambda found: found.slow_replica is not None)
    slow = report.slow_replica
    assert slow is not None
    assert (slow.role, slow.index) == (Role.WORKER, 1)
    assert slow.own_millis >= 200
    assert slow.others_millis < slow.own_millis / 1.5
    assert report.exchange_wait_millis is not None
    assert report.exchange_wait_millis > 0
    assert gang.progress_when(lambda found: found.exchange_wait_millis is not None, index=1).slow_replica is None
    # A writer keeps points for ten seconds at most: TensorBoard, too, has the name and the times of each worker.
    wait_for("the text in TensorBoard", lambda: b"slow_replica" in written(tmp_path / "train"))
    wait_for(
        "the times in TensorBoard",
        lambda: all(b"compute_millis" in written(tmp_path / f"worker-{n}") for n in range(3)),
    )
    assert b"worker-1: " in written(tmp_path / "train")


def written(run: Path) -> bytes:
    """Return the content of the event files of a run."""
    return b"".join(file.read_bytes() for file in run.glob("events.*"))


@pytest.mark.long  # a load of other processes can slow one of two workers down
def test_no_worker_of_a_healthy_gang_is_named(launch: "Launch", tmp_path: Path) -> None:
    """Given two workers whose steps take equally long; then none is named in 24 steps."""
    gang = started(launch, tmp_path, 0.1, 0.1, epochs=1_000_000)
    report = gang.progress_when(lambda found: found.slow_replica is not None or (found.step or 0) >= 24)
    assert report.slow_replica is None
    assert report.exchange_wait_millis is not None
