"""The controller is killed before each of its changes in the life of a job, in turn; the next one completes the work.

A controller that dies after a change and before the next has left the same behind as one that dies before the next, so
every point between two changes is met. Only an event is published at most once: a controller that dies between a status
and its event loses it. All jobs live at the same time, each in a namespace with controllers of its own.
"""

import pathlib
import re
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from support.api import Api, Json
from support.controller_crashes import controlled, logs_of, namespaces, runs_in
from support.crashing_controller import Run
from support.factories import manifest, termination_message

pytestmark = pytest.mark.integration

GROUPS = "scheduling.k8s.io/v1beta1/podgroups"
TIMES = {
    *("node", "selector", "time", "lastTransitionTime", "startTime", "completionTime", "activeSince", "startedAt"),
    *("endedAt", "updatedAt", "secondsToRecover"),
}
SECONDS = 240


@dataclass(frozen=True)
class JobState:
    """The state of a job and its objects, as a user sees it in the namespace."""

    status: Json
    pods: frozenset[str]
    events: tuple[str, ...]
    services: int
    groups: frozenset[str]


Life = Generator[Callable[[JobState], bool], JobState, tuple[JobState, JobState]]


def life(api: Api, namespace: str) -> Life:
    """Live a job: it runs, loses a worker, succeeds, and is cleaned up; return its end, and what is left."""
    yield lambda state: state.status.get("phase") == "Running"
    api.end_container(namespace, "fashion-worker-1", 137)
    yield lambda state: (state.status["phase"], state.status["attempt"]) == ("Running", 1)
    api.end_container(namespace, "fashion-worker-1-r1", 0)
    api.end_container(namespace, "fashion-worker-0-r1", 0, termination_message(step=10))
    succeeded = yield lambda state: state.status["phase"] == "Succeeded"
    left = yield lambda state: not state.pods and not state.services and not state.groups
    return succeeded, left


def snapshot(api: Api, namespaces: list[str]) -> dict[str, JobState]:
    """Return the objects of each namespace whose job did not change during the requests."""
    before = _jobs(api)
    pods = api.do("GET", "/api/v1/pods", labelSelector="tfdist.dev/job")["items"]
    services = api.do("GET", "/api/v1/services", labelSelector="tfdist.dev/job")["items"]
    groups = api.do("GET", f"/apis/{GROUPS}")["items"]
    events = api.do("GET", "/apis/events.k8s.io/v1/events", fieldSelector="reportingController=tfdist.dev/controller")
    jobs = _jobs(api)
    return {
        namespace: JobState(
            jobs[namespace].get("status", {}),
            frozenset(p["metadata"]["name"] for p in _of(namespace, pods) if "deletionTimestamp" not in p["metadata"]),
            tuple(sorted(e["metadata"]["name"].split(".")[-1] for e in _of(namespace, events["items"]))),
            len(_of(namespace, services)),
            frozenset(g["metadata"]["name"] for g in _of(namespace, groups)),
        )
        for namespace in namespaces
        if jobs[namespace]["metadata"]["resourceVersion"] == before[namespace]["metadata"]["resourceVersion"]
    }


def _jobs(api: Api) -> dict[str, Json]:
    return {j["metadata"]["namespace"]: j for j in api.do("GET", "/apis/tfdist.dev/v1/tfdistjobs")["items"]}


def _of(namespace: str, items: list[Json]) -> list[Json]:
    return [item for item in items if item["metadata"]["namespace"] == namespace]


_RUNNING = re.compile(
    r"(all \d+|\d+ of \d+) replicas run(; [\w, -]+ (has|have) ended)?(; [\w, -]+ (is|are) not ready)?"
)


def timeless(value: Any) -> Any:
    """Return a status without what differs from run to run, with conditions by their types.

    These are times, nodes, the selector with the UID, and how many replicas ran when a message was written.
    """
    if isinstance(value, dict):
        return {k: timeless(v) for k, v in value.items() if k not in TIMES}
    if isinstance(value, list):
        items = [timeless(v) for v in value]
        return sorted(items, key=lambda v: str(v.get("type"))) if items and isinstance(items[0], dict) else items
    return re.sub(r"node [\w.-]+", "a node", _RUNNING.sub("replicas run", value)) if isinstance(value, str) else value


def live(api: Api, runs: list[Run]) -> dict[str, tuple[JobState, JobState]]:
    """Live the jobs of all runs side by side, and return how each ended."""
    lives = {run.namespace: life(api, run.namespace) for run in runs}
    awaited = {namespace: next(lives[namespace]) for namespace in lives}
    ends: dict[str, tuple[JobState, JobState]] = {}
    last = time.monotonic() + SECONDS
    while awaited:
        states = snapshot(api, list(awaited))
        for namespace in [name for name, awaits in awaited.items() if name in states and awaits(states[name])]:
            try:
                awaited[namespace] = lives[namespace].send(states[namespace])
            except StopIteration as end:
                ends[namespace] = end.value
                del awaited[namespace]
        logs = logs_of([run for run in runs if run.namespace in awaited])
        assert time.monotonic() < last, f"stuck: { {n: states.get(n) for n in awaited} }\n{logs}"
        time.sleep(0.2)
    return ends


@contextmanager
def dying(api: Api, folder: pathlib.Path, points: range) -> Iterator[list[Run]]:
    """Have a job and controllers for each point at which to die, until the block ends."""
    with namespaces(api, len(points)) as names:
        runs = runs_in(names, points, folder)
        for name in names:
            document = manifest("fashion", name, runPolicy={"cleanPodPolicy": "All"})
            del document["metadata"]["uid"]
            api.create_job(document)
        with controlled(api, folder, runs):
            yield runs


@pytest.mark.long
def test_a_job_whose_controller_is_killed_before_any_change_ends_as_an_undisturbed_one(
    api: Api, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "whole").mkdir()
    with dying(api, tmp_path / "whole", range(1)) as (whole,):
        ((expected, left),) = live(api, [whole]).values()
        changes = pathlib.Path(whole.log).read_text().splitlines()
    assert expected.pods == {"fashion-worker-1", "fashion-worker-0-r1", "fashion-worker-1-r1"}
    assert expected.status["scheduling"] == {"system": "Native"}
    assert expected.status["restarts"] == {"counted": 1, "uncounted": 0, "sinceCheckpoint": 1}
    with dying(api, tmp_path, range(1, len(changes) + 1)) as runs:
        ends = live(api, runs)
        for run, change in zip(runs, changes, strict=True):
            log = pathlib.Path(run.log).read_text()
            where = f"killed before its change {run.die_before}, as {change}:\n{log}"
            for actual, reference in zip(ends[run.namespace], (expected, left), strict=True):
                assert timeless(actual.status) == timeless(reference.status), where
                assert actual.pods <= reference.pods, where
                assert actual.services <= reference.services, where
            lost = len(re.findall(r"dies before POST .*/events$", log, re.MULTILINE))
            events = ends[run.namespace][1].events
            assert ({*events} <= {*left.events}, len(events)) == (True, len(left.events) - lost), where
            if any("/status" in later for later in changes[run.die_before - 1 :]):
                # Later, the one that takes over may clean up before the end is observed.
                assert (ends[run.namespace][0].pods, ends[run.namespace][0].services) == (
                    expected.pods,
                    expected.services,
                )
