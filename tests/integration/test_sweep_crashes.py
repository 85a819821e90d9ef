"""The controller is killed before each of its changes in the life of a sweep, in turn; the next one completes the work.

All sweeps live at the same time, each in a namespace with controllers of its own.
"""

import pathlib
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager

import pytest
from support.api import Api, Json
from support.controller_crashes import controlled, logs_of, namespaces, runs_in
from support.crashing_controller import Run
from support.history import Change, recorded
from support.scripted_sweep import create, end, sweep, trials

pytestmark = [pytest.mark.integration, pytest.mark.long]

JOBS = "/apis/tfdist.dev/v1/tfdistjobs"
SECONDS = 240

Life = Generator[Callable[[Json, dict[int, Json]], bool], None, None]


def life(api: Api, namespace: str) -> Life:
    """Live a sweep of three trials: one succeeds, then one reaches the target, and the third is stopped."""
    create(api, namespace, search={"trials": 3}, parallelism=2, targetValue=0.9, cleanTrials="Stopped")
    yield lambda _, jobs: {*running(jobs)} == {0, 1}
    end(api, namespace, 0, 0.5)
    yield lambda _, jobs: {*running(jobs)} == {1, 2}
    end(api, namespace, 1, 0.95)
    yield lambda status, jobs: status.get("phase") == "Succeeded" and {*jobs} == {0, 1}


def running(jobs: dict[int, Json]) -> list[int]:
    return [number for number, job in jobs.items() if job.get("status", {}).get("phase") == "Running"]


@contextmanager
def dying(api: Api, folder: pathlib.Path, points: range) -> Iterator[tuple[list[Run], list[Change]]]:
    """Have controllers for each point at which to die; yield them with the changes of jobs meanwhile."""
    folder.mkdir()
    with namespaces(api, len(points)) as names, recorded(api, [JOBS]) as changes:
        runs = runs_in(names, points, folder)
        with controlled(api, folder, runs):
            yield runs, changes


def live(api: Api, runs: Sequence[Run]) -> dict[str, Json]:
    """Live the sweeps of all runs, and return the status of each at its end."""
    lives = {run.namespace: life(api, run.namespace) for run in runs}
    awaited = {namespace: next(lives[namespace]) for namespace in lives}
    ends: dict[str, Json] = {}
    last = time.monotonic() + SECONDS
    while awaited:
        for namespace, awaits in list(awaited.items()):
            status, jobs = sweep(api, namespace).get("status", {}), trials(api, namespace)
            if awaits(status, jobs):
                try:
                    awaited[namespace] = next(lives[namespace])
                except StopIteration:
                    ends[namespace] = status
                    del awaited[namespace]
        logs = logs_of([run for run in runs if run.namespace in awaited])
        stuck = [sweep(api, namespace).get("status") for namespace in awaited] if time.monotonic() > last else []
        assert not stuck, f"{stuck}\n{logs}"
        time.sleep(0.2)
    return ends


def test_a_controller_killed_before_any_change_loses_no_trial_and_runs_none_twice(
    api: Api, tmp_path: pathlib.Path
) -> None:
    # given the changes of a controller that lives
    with dying(api, tmp_path / "whole", range(1)) as ((whole,), _):
        live(api, [whole])
        number = len(pathlib.Path(whole.log).read_text().splitlines())
    # when controllers die before each of these
    with dying(api, tmp_path / "dying", range(1, number + 1)) as (runs, changes):
        ends = live(api, runs)
    # then each trial has its result, and one job
    for run in runs:
        results = ends[run.namespace]["results"]
        assert [(each["trial"], each["phase"]) for each in results] == [
            (0, "Succeeded"),
            (1, "Succeeded"),
            (2, "Stopped"),
        ], pathlib.Path(run.log).read_text()
        uids: dict[str, set[str]] = {}
        for change in changes:
            if change.namespace == run.namespace:
                uids.setdefault(change.object["metadata"]["name"], set()).add(change.object["metadata"]["uid"])
        assert {name: len(identities) for name, identities in uids.items()} == {f"rates-{k}": 1 for k in range(3)}
