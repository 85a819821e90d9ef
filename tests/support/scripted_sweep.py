"""Sweeps whose jobs follow the script of a test: it ends their pods with the metric of each trial."""

from collections.abc import Mapping
from typing import Any

from support.api import JOBS, Api, Json
from support.factories import manifest, termination_message
from support.polling import wait_for
from support.sweeps import sweep_manifest

SWEEPS = "/apis/tfdist.dev/v1alpha1/namespaces/{ns}/tfdistsweeps"
NAME = "rates"


def create(api: Api, namespace: str, template: Mapping[str, Any] | None = None, **spec: Any) -> Json:
    """Create a sweep over the learning rate of a job with one worker, compared by its training accuracy."""
    job = manifest(worker={"replicas": 1})["spec"] | {"scheduling": {"gang": "None"}} | (template or {})
    fields: Json = {
        "metric": "accuracy",
        "parameters": [{"name": "learningRate", "range": {"min": 0.001, "max": 0.1}}],
    }
    document = sweep_manifest(NAME, **fields | spec)
    document["metadata"] = {"name": NAME, "namespace": namespace}
    document["spec"]["template"]["spec"] = job
    return api.do("POST", SWEEPS.format(ns=namespace), document)


def sweep(api: Api, namespace: str) -> Json:
    return api.do("GET", f"{SWEEPS.format(ns=namespace)}/{NAME}")


def change(api: Api, namespace: str, **spec: Any) -> None:
    api.do("PATCH", f"{SWEEPS.format(ns=namespace)}/{NAME}", {"spec": spec}, "merge-patch")


def await_sweep(api: Api, namespace: str, phase: str) -> Json:
    """Wait until the sweep is in a phase, and return its status."""

    def status() -> Json | None:
        last: Json = sweep(api, namespace).get("status", {})
        return last if last.get("phase") == phase else None

    last = wait_for(f"the sweep to be {phase}", status, context=lambda: str(sweep(api, namespace).get("status")))
    assert last is not None
    return last


def trials(api: Api, namespace: str) -> dict[int, Json]:
    """Return the jobs of the trials by number."""
    jobs = api.do("GET", JOBS.format(ns=namespace), labelSelector="tfdist.dev/trial")["items"]
    return {int(job["metadata"]["labels"]["tfdist.dev/trial"]): job for job in jobs}


def statuses(api: Api, namespace: str) -> dict[int, Json]:
    """Return the statuses of the jobs of the trials by number."""
    return {number: job.get("status", {}) for number, job in trials(api, namespace).items()}


def await_trials(api: Api, namespace: str, phase: str, *numbers: int) -> dict[int, Json]:
    """Wait until the jobs of exactly these trials are in a phase, whatever the others are."""

    def current() -> dict[int, Json] | None:
        jobs = trials(api, namespace)
        there = {number for number, job in jobs.items() if job.get("status", {}).get("phase") == phase}
        return jobs if there == set(numbers) else None

    jobs = wait_for(f"trials {numbers} to be {phase}", current, context=lambda: str(statuses(api, namespace)))
    assert jobs is not None
    return jobs


def end(api: Api, namespace: str, trial: int, accuracy: float, attempt: int = 0) -> None:
    """End the pod of a trial, with the accuracy that its training has reached."""
    pod = f"{NAME}-{trial}-worker-0" + (f"-r{attempt}" if attempt else "")
    api.end_container(namespace, pod, 0, termination_message(step=10, metrics={"accuracy": accuracy}))


def events(api: Api, namespace: str) -> list[str]:
    """Return the reasons of the events of the sweep."""
    path = f"/api/v1/namespaces/{namespace}/events"
    items = api.do("GET", path, fieldSelector="involvedObject.kind=TFDistSweep")["items"]
    return sorted(event["reason"] for event in items)
