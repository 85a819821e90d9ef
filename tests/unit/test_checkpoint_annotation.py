"""The time of the last checkpoint on the leader's pod, for whoever chooses which job to preempt."""

from typing import Any

import pytest
from support.factories import CHECKPOINT, Lifecycle, pod, report

from tfdist.api.gang_system import GangSystem
from tfdist.desired.pods import Patch

BOTH = "worker-0:R worker-1:R"
NATIVE: dict[str, Any] = {"served_systems": frozenset({GangSystem.NATIVE})}
FIRST, LATER, SOON = "2030-01-02T03:00:00Z", "2030-01-02T03:01:00Z", "2030-01-02T03:00:59Z"


def saved(time: str) -> Any:
    return report(last_checkpoint={"step": 5, "path": "/ckpt/5", "time": time})


def patches(time: str, known: str = "", **environment: Any) -> list[Patch]:
    """Return the patches of pods after a checkpoint, given the time that the leader's pod has."""
    job = Lifecycle(checkpoint=CHECKPOINT)
    job.reconcile(**environment)
    job.reconcile(BOTH, **environment)
    running = [pod("worker-0", checkpoint_at=known), pod("worker-1")]
    return list(job.reconcile(running, report=saved(time), **environment).patches)


def test_the_leaders_pod_gets_the_time_of_a_checkpoint() -> None:
    annotation = {"metadata": {"annotations": {"tfdist.dev/last-checkpoint-time": FIRST}}}
    assert patches(FIRST, **NATIVE) == [Patch("fashion-worker-0", annotation)]


@pytest.mark.parametrize(("time", "changes"), [(FIRST, 0), (SOON, 0), (LATER, 1)])
def test_it_is_changed_once_a_minute_at_most(time: str, changes: int) -> None:
    assert len(patches(time, known=FIRST, **NATIVE)) == changes


def test_without_a_gang_scheduler_that_could_preempt_no_request_is_sent() -> None:
    assert patches(FIRST) == []


def test_a_time_that_is_none_is_not_written() -> None:
    assert patches("tomorrow", **NATIVE) == []
