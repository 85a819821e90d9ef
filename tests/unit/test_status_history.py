"""`status.history`: progress over time in at most 120 points, over the whole of a training."""

import json
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from support.factories import NOW, Lifecycle, report

from tfdist.api.history_status import MAX_POINT_METRICS, MAX_POINTS, ProgressPoint
from tfdist.api.status import Progress, TFDistJobStatus
from tfdist.status.history import history_of
from tfdist.timestamps import rfc3339

BOTH = "worker-0:R worker-1:R"


NOTHING = Progress()


def progress(step: int, seconds: float, **fields: Any) -> Progress:
    return Progress(step=step, reported_at=rfc3339(NOW + timedelta(seconds=seconds)), **fields)


def written(count: int, seconds: float = 5) -> list[ProgressPoint]:
    """The points after so many writes."""
    points: list[ProgressPoint] = []
    old = NOTHING
    for step in range(count):
        new = progress(step, step * seconds)
        points, old = history_of(points, old, new, ended=False), new
    return points


def test_a_point_has_step_time_and_rounded_numbers() -> None:
    new = progress(5, 0, metrics={"loss": 0.123456789, "accuracy": 1 / 3}, examples_per_second=1234567.8, epoch=2)
    assert history_of((), NOTHING, new, ended=False) == [
        ProgressPoint(
            step=5,
            time="2030-01-02T03:04:05Z",
            metrics={"loss": 0.123457, "accuracy": 0.333333},
            examples_per_second=1234570.0,
        )
    ]


def test_of_many_metrics_the_first_by_name_are_kept() -> None:
    new = progress(5, 0, metrics={f"m{i:02}": float(i) for i in range(20)})
    (point,) = history_of((), NOTHING, new, ended=False)
    assert list(point.metrics or ()) == [f"m{i:02}" for i in range(MAX_POINT_METRICS)]


def test_a_metric_with_a_very_long_name_is_left_out() -> None:
    (point,) = history_of((), NOTHING, progress(5, 0, metrics={"m" * 65: 1.0, "loss": 0.5}), ended=False)
    assert point.metrics == {"loss": 0.5}


def test_the_same_progress_adds_no_point() -> None:
    known = progress(5, 0)
    points = history_of((), NOTHING, known, ended=False)
    assert history_of(points, known, known, ended=False) == points


def test_a_restart_from_an_earlier_step_keeps_the_points() -> None:
    old, new = progress(50, 0), progress(40, 60)
    points = history_of(history_of((), NOTHING, old, ended=False), old, new, ended=False)
    assert [p.step for p in points] == [50, 40]


@pytest.mark.parametrize("count", [1, 100, 121, 500, 3000, 20000])
def test_the_points_are_bounded_and_spread_over_the_whole_training(count: int) -> None:
    points = written(count)
    assert min(count, MAX_POINTS // 2) <= len(points) <= MAX_POINTS
    steps = [p.step for p in points]
    assert steps == sorted(steps)
    gaps = [later - earlier for earlier, later in pairwise(steps)]
    assert max(gaps, default=1) <= 4 * max(1, count / MAX_POINTS), "no part of it is left out"
    assert (steps[0], steps[-1] > 0.9 * (count - 1) - 1) == (0, True)


def test_the_last_progress_of_a_training_is_a_point() -> None:
    points, old = written(5000), progress(4999, 4999 * 5)
    points = history_of(points, old, progress(5001, 4999 * 5 + 1), ended=True)
    assert points[-1].step == 5001


def test_the_largest_history_fits_a_status() -> None:
    metrics = {f"{'m' * 62}{i:02}": 0.123456789 for i in range(20)}
    points: list[ProgressPoint] = []
    old = NOTHING
    for step in range(MAX_POINTS):
        new = progress(10**9 + step, step * 5, metrics=metrics, examples_per_second=123456.789)
        points, old = history_of(points, old, new, ended=False), new
    assert len(json.dumps([p.model_dump(by_alias=True) for p in points])) < 100_000


def test_a_point_is_written_with_progress_and_never_alone() -> None:
    story = Lifecycle(BOTH)
    assert story.reconcile(BOTH, report=report(5), throttled_seconds=6.0).status is None
    story.reconcile(BOTH, report=report(5, metrics={"loss": 0.5}))
    assert [p["step"] for p in story.status["history"]] == [5]
    assert story.reconcile(BOTH, report=report(5, metrics={"loss": 0.5})).status is None
    TFDistJobStatus.model_validate(story.status)
