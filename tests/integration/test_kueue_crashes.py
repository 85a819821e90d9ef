"""The controller is killed before each of its changes in the life of a job in a queue of Kueue, in turn.

The life is that of a job that starts, is evicted, goes on, and succeeds; then another one needs the whole quota. All
jobs live at the same time, each in a namespace with a queue and controllers of its own.
"""

import pathlib
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager

import pytest
from support.api import Api, Json
from support.controller_crashes import controlled, logs_of, namespaces, runs_in
from support.crashing_controller import Run
from support.factories import termination_message
from support.history import Change, recorded
from support.polling import wait_for
from support.queued_jobs import PODS, QUEUE, WORKLOADS, conditions, quota_of, set_stop_policy, submit
from support.schedulers import kueue

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.usefixtures("kueue")]

SIZE = 2
"""Workers of a job, which needs the whole quota."""
ATTEMPTS = [("fashion", ""), ("fashion", "-r1"), ("second", "")]
SECONDS = 480
JOBS = "/apis/tfdist.dev/v1/tfdistjobs"
GROUPS = "/apis/scheduling.k8s.io/v1beta1/podgroups"
ALL_PODS = [f"{pod}-worker-{i}{attempt}" for pod, attempt in ATTEMPTS for i in range(SIZE)]

Jobs = Mapping[tuple[str, str], Json]
Life = Generator[Callable[[Jobs], bool], None, None]


def life(api: Api, namespace: str) -> Life:
    """Live the jobs of a namespace; yield what to wait for."""
    submit(api, namespace, "fashion", worker={"replicas": SIZE})
    yield lambda jobs: _is(jobs, namespace, "fashion", "Running", 0)
    set_stop_policy(api, namespace, "HoldAndDrain")
    yield lambda jobs: _is(jobs, namespace, "fashion", "Queued", 1)
    set_stop_policy(api, namespace, "None")
    yield lambda jobs: _is(jobs, namespace, "fashion", "Running", 1)
    api.end_container(namespace, "fashion-worker-1-r1", 0)
    api.end_container(namespace, "fashion-worker-0-r1", 0, termination_message(step=10))
    yield lambda jobs: _is(jobs, namespace, "fashion", "Succeeded", 1)
    submit(api, namespace, "second", worker={"replicas": SIZE})
    yield lambda jobs: _is(jobs, namespace, "second", "Running", 0)


def _is(jobs: Jobs, namespace: str, name: str, phase: str, attempt: int) -> bool:
    status = jobs.get((namespace, name), {}).get("status", {})
    return (status.get("phase"), status.get("attempt", 0)) == (phase, attempt)


def live(api: Api, runs: Sequence[Run]) -> None:
    """Live the jobs of all runs side by side."""
    lives = {run.namespace: life(api, run.namespace) for run in runs}
    awaited = {namespace: next(lives[namespace]) for namespace in lives}
    last = time.monotonic() + SECONDS
    while awaited:
        jobs = {(j["metadata"]["namespace"], j["metadata"]["name"]): j for j in api.do("GET", JOBS)["items"]}
        for namespace in [name for name, awaits in awaited.items() if awaits(jobs)]:
            try:
                awaited[namespace] = next(lives[namespace])
            except StopIteration:
                del awaited[namespace]
        logs = logs_of([run for run in runs if run.namespace in awaited])
        stuck = [job for (namespace, _), job in jobs.items() if namespace in awaited]
        assert time.monotonic() < last, f"stuck: {stuck}\n{logs}"
        time.sleep(0.2)


@contextmanager
def dying(api: Api, folder: pathlib.Path, points: range) -> Iterator[tuple[list[Run], list[Change]]]:
    """Have queues and controllers for each point at which to die; yield them with the changes meanwhile."""
    folder.mkdir()
    with namespaces(api, len(points)) as names, recorded(api, [PODS, WORKLOADS]) as changes:
        for name in names:
            kueue.create_queue(api, name, QUEUE, cpu=SIZE)
        runs = runs_in(names, points, folder)
        with controlled(api, folder, runs):
            yield runs, changes


def check(changes: Sequence[Change]) -> None:
    """Check the history of a namespace: no pod without quota, and no quota released while a pod lives."""
    quota = quota_of(changes)
    assert {name: len(uids) for name, uids in quota.pods.items()} == dict.fromkeys(ALL_PODS, 1)
    assert {job: len(uids) for job, uids in quota.workloads.items()} == {"fashion": 1, "second": 1}


def _is_left(api: Api, namespaces: Sequence[str]) -> Counter[str]:
    """Return the namespaces with a PodGroup of the job that has ended, or a Workload of it that has not."""
    groups, workloads = (api.do("GET", path)["items"] for path in (GROUPS, WORKLOADS))
    unfinished = [w for w in workloads if conditions(w).get("Finished") != "True"]
    left = [o for o in (*groups, *unfinished) if o["metadata"]["labels"]["tfdist.dev/job"] == "fashion"]
    return Counter(o["metadata"]["namespace"] for o in left if o["metadata"]["namespace"] in namespaces)


def test_a_controller_killed_before_any_change_keeps_to_the_quota_and_releases_it(
    api: Api, tmp_path: pathlib.Path
) -> None:
    # given the changes of a controller that lives
    with dying(api, tmp_path / "whole", range(1)) as ((whole,), changes):
        live(api, [whole])
        number = len(pathlib.Path(whole.log).read_text().splitlines())
    check([change for change in changes if change.namespace == whole.namespace])
    # when controllers die before each of these
    with dying(api, tmp_path / "dying", range(1, number + 1)) as (runs, changes):
        live(api, runs)
        # then no PodGroup is left, and the Workload is finished
        names = [run.namespace for run in runs]
        wait_for("nothing to be left", lambda: not _is_left(api, names), context=lambda: str(_is_left(api, names)))
    # and at no time was there a pod without quota, or twice
    for run in runs:
        try:
            check([change for change in changes if change.namespace == run.namespace])
        except AssertionError as error:
            error.add_note(pathlib.Path(run.log).read_text())
            raise
