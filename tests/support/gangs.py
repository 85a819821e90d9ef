"""Gangs for tests with real gang schedulers: ten jobs of three replicas, of which three fit on ten places."""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from support.api import PODS, Api, Json
from support.factories import manifest
from support.owned_model import group_of
from support.places import finish, one_place, phase, pods_of, scheduled
from support.polling import wait_for
from tfdist.api.gang_system import GangSystem

Submit = Callable[..., Any]
"""`submit`, or a partial application of it."""

NAMES: Final = tuple(f"gang-{i}" for i in range(10))
SIZE: Final = 3
PLACES: Final = 10
"""Room for three gangs, and for a third of another."""
FIT: Final = PLACES // SIZE


def submit(api: Api, namespace: str, name: str, scheduling: Json, *, replicas: int = SIZE, scheduler: str = "") -> None:
    """Create a job whose replicas take one place each.

    Args:
        api: the API server.
        namespace: of the job.
        name: of the job.
        scheduling: `spec.scheduling`.
        replicas: number of its workers.
        scheduler: `schedulerName` of its pods; "" for none.
    """
    worker: Json = {"replicas": replicas}
    if scheduler:
        worker["template"] = {"spec": {"schedulerName": scheduler}}
    document = manifest(name, namespace, worker=worker, scheduling=scheduling, **one_place())
    del document["metadata"]["uid"]
    api.create_job(document)


def await_running(api: Api, namespace: str, name: str) -> None:
    """Wait until a job runs."""
    wait_for(
        f"{name} to run",
        lambda: phase(api, namespace, name) == "Running",
        context=lambda: f"{api.job(namespace, name).get('status')}\n{_conditions(api, namespace)}",
    )


def await_first_gangs(api: Api, namespace: str) -> Json:
    """Wait until as many gangs run as fit; return `status.scheduling` of another one, with its reason."""
    wait_for(
        f"{FIT} gangs",
        lambda: [phase(api, namespace, name) for name in NAMES].count("Running") == FIT,
        context=lambda: _conditions(api, namespace),
    )
    waiting = next(name for name in NAMES if phase(api, namespace, name) != "Running")
    wait_for("the message of the scheduler", lambda: "reason" in _scheduling(api, namespace, waiting))
    return _scheduling(api, namespace, waiting)


def finish_all(api: Api, namespace: str) -> None:
    """Let all gangs succeed, one after another; none is scheduled in part meanwhile."""
    finish(api, namespace, NAMES, check=lambda: check_all_or_none(api, namespace))


def check_all_or_none(api: Api, namespace: str) -> None:
    """Check that each gang has nodes for all replicas, or for none.

    Binding takes a moment. No replica ends meanwhile, so a gang that was scheduled in part stays so.
    """
    for name in NAMES:
        wait_for(
            f"all nodes of {name}, or none",
            partial(_has_all_or_none, api, namespace, name),
            context=lambda: _conditions(api, namespace),
        )


def await_partial_gang(api: Api, namespace: str) -> None:
    """Wait until ten replicas have nodes, and check that some gang was scheduled in part."""
    wait_for("ten replicas", lambda: sum(scheduled(api, namespace, name) for name in NAMES) == PLACES)
    assert any(0 < scheduled(api, namespace, name) < SIZE for name in NAMES)


def check_preemption(api: Api, namespace: str, submit: Submit, scheduling: Json, urgent: str) -> None:
    """Check that a gang which a more urgent one preempts waits as a whole, and starts again uncounted.

    Args:
        api: the API server.
        namespace: of the jobs.
        submit: creates a job for the scheduler.
        scheduling: `spec.scheduling`.
        urgent: a PriorityClass above the default.
    """
    # given
    submit(api, namespace, "gang-0", scheduling)
    await_running(api, namespace, "gang-0")
    # when a gang of two arrives
    submit(api, namespace, "gang-1", scheduling | {"priorityClassName": urgent}, replicas=2)
    # then no replica of the other keeps the third place
    await_running(api, namespace, "gang-1")
    wait_for("no replica of the other has a node", lambda: scheduled(api, namespace, "gang-0") == 0)
    # when it has ended
    finish(api, namespace, ["gang-1"])
    # then
    await_running(api, namespace, "gang-0")
    restarts = api.job(namespace, "gang-0")["status"]["restarts"]
    assert (restarts["counted"], restarts["uncounted"]) == (0, 1)


def restart_in_next_group(api: Api, namespace: str, path: str, system: GangSystem) -> None:
    """Let a replica of `gang-0` fail, and check that all get their nodes again, in a PodGroup of the next attempt.

    Args:
        api: the API server.
        namespace: of the job.
        path: of the PodGroups of a namespace, with the placeholder `ns`.
        system: the gang scheduler of the job.
    """
    await_running(api, namespace, "gang-0")
    assert groups(api, path, namespace) == {"gang-0-training"}
    # when
    fail_replica(api, namespace, "gang-0")
    # then
    wait_for("the next attempt", lambda: api.job(namespace, "gang-0")["status"]["attempt"] == 1)
    await_running(api, namespace, "gang-0")
    assert "gang-0-training-r1" in {group_of(pod, system) for pod in pods_of(api, namespace, "gang-0")}
    wait_for("the first PodGroup to be removed", lambda: groups(api, path, namespace) == {"gang-0-training-r1"})


def fail_replica(api: Api, namespace: str, name: str) -> None:
    """Let the first replica of a job end as if it had been killed."""
    api.end_container(namespace, pods_of(api, namespace, name)[0]["metadata"]["name"], 137)


def groups(api: Api, path: str, namespace: str) -> set[str]:
    """Return the names of the PodGroups of a namespace, of the kind whose path has the placeholder `ns`."""
    return {group["metadata"]["name"] for group in api.do("GET", path.format(ns=namespace))["items"]}


def _has_all_or_none(api: Api, namespace: str, name: str) -> bool:
    return scheduled(api, namespace, name) in {0, SIZE}


def _scheduling(api: Api, namespace: str, name: str) -> Json:
    scheduling: Json = api.job(namespace, name)["status"].get("scheduling", {})
    return scheduling


def _conditions(api: Api, namespace: str) -> str:
    """Return why pods have no node, for messages of failed tests."""
    lines = []
    for pod in api.do("GET", PODS.format(ns=namespace))["items"]:
        conditions = pod.get("status", {}).get("conditions", ())
        messages = [c.get("message") for c in conditions if c["type"] == "PodScheduled" and c["status"] != "True"]
        lines.append(f"{pod['metadata']['name']}: {pod['spec'].get('nodeName', 'no node')} {messages or ''}")
    return "\n".join(lines)
