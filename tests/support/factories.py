"""Jobs, pods and views for tests, with ordinary values for everything that a test does not set."""

import copy
import dataclasses
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from support.statuses import status_of
from tfdist.api.gang_system import Availability
from tfdist.contract import Phase, Restarts, Role
from tfdist.contract_reports import GangReport, MemberReport, ProgressReport, RoundFailure
from tfdist.observed.job_view import JobView, RuntimeState, StoredJob, TimestampedReport
from tfdist.observed.pod import PodState, PodSummary
from tfdist.planner import Plan, plan
from tfdist.render.fingerprint import fingerprint
from tfdist.render.installation import Installation
from tfdist.timestamps import rfc3339
from tfdist.validation import parse

NOW = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)
INSTALLATION = Installation("tfdist/trainer:test")
TRAINING: dict[str, Any] = {
    "program": "image_classification",
    "config": {"data": {"train": "/data/train-*.tfrecord", "eval": "/data/eval.tfrecord"}},
}
"""What a built-in program needs at least."""
UID = "11111111-2222-3333-4444-555555555555"

RESULT = {
    "step": 10,
    "checkpoint": "/ckpt/fashion/10",
    "metrics": {"accuracy": 0.9},
    "examples": 10000,
    "time": "2030-01-02T03:04:05Z",
}
"""An evaluation, as its termination message and the status have it."""


def manifest(name: str = "fashion", namespace: str = "team", without: Any = (), **spec: Any) -> dict[str, Any]:
    """Return the JSON of a job with two workers that run a built-in program, changed by `spec`."""
    base: dict[str, Any] = {"worker": {"replicas": 2}, "training": copy.deepcopy(TRAINING)}
    base = {name: value for name, value in base.items() if name not in without}
    return {
        "apiVersion": "tfdist.dev/v1",
        "kind": "TFDistJob",
        "metadata": {"name": name, "namespace": namespace, "uid": UID},
        "spec": base | spec,
    }


CHECKPOINT: dict[str, Any] = {"directory": "/ckpt/{name}", "volume": {"persistentVolumeClaim": {"claimName": "ckpt"}}}
EVALUATED: dict[str, Any] = {"evaluation": {"mode": "AfterTraining"}, "checkpoint": CHECKPOINT}


def pod(name: str, letter: str = "R", **changes: Any) -> PodSummary:
    """Return a pod from `role-index` or `role-index-rK` and how it is: P, R, S or F (pending ... failed)."""
    role, index, *attempt = name.split("-")
    state = {"P": PodState.PENDING, "R": PodState.RUNNING, "S": PodState.SUCCEEDED, "F": PodState.FAILED}[letter]
    ended = letter in "SF"
    fields: dict[str, Any] = {
        "name": f"fashion-{name}",
        "uid": f"uid-{name}",
        "resource_version": 1,
        "job_uid": UID,
        "role": Role(role),
        "index": int(index),
        "attempt": int(attempt[0][1:]) if attempt else 0,
        "generation": attempt[0][1:] if attempt else "0",
        "owned": True,
        "state": state,
        "ready": letter == "R",
        "deleting": False,
        "disrupted": False,
        "created_at": "2030-01-02T03:00:00Z",
        "finished_at": "2030-01-02T03:04:00Z" if ended else "",
        "deleted_at": "2030-01-02T03:04:00Z" if changes.get("deleting") else "",
        "node": "node-a",
        "ip": "10.0.0.1",
        "exit_code": {"S": 0, "F": 137}.get(letter),
        "signal": None,
        "conditions": (),
        "reason": "",
        "message": "",
    }
    return PodSummary(**(fields | changes))


FIRST_ATTEMPT: dict[str, Any] = {"gangs": {"training": {"attempt": 0, "lastFullRestart": 0}}}
"""Status of a job whose first attempt has begun. It is stored before any pod is created."""


def view(pods: str | list[PodSummary] = "", status: Mapping[str, Any] | None = None, **changes: Any) -> JobView:
    """Return the view of a job whose pods are given as `worker-0:R worker-1:P` or as summaries."""
    spec = changes.pop("spec", {})
    summaries = [pod(*p.split(":")) for p in pods.split()] if isinstance(pods, str) else pods
    job = parse(manifest(**spec))
    fields: dict[str, Any] = {
        "job": job,
        "template": fingerprint(job),
        "problems": (),
        "managed_by": spec.get("runPolicy", {}).get("managedBy"),
        "generation": 1,
        "status": status or {},
        "pods": tuple(summaries),
    }
    return view_of(**(fields | changes))


def view_of(**values: Any) -> JobView:
    """Return a view from values of its fields, and of those of the stored job and the runtime state.

    `served_systems` are gang schedulers that are served; all others are absent.
    """
    if "served_systems" in values:
        values["systems"] = dict.fromkeys(values.pop("served_systems"), Availability.SERVED)
    if isinstance(status := values.get("status"), Mapping):
        values["status"] = status_of(status)

    def part(kind: Any) -> Any:
        return kind(**{each.name: values.pop(each.name) for each in dataclasses.fields(kind) if each.name in values})

    return JobView(stored=part(StoredJob), runtime=part(RuntimeState), **values)


def planned(*args: Any, now: datetime = NOW, **kwargs: Any) -> Plan:
    """Return the plan for the view of these arguments."""
    return plan(view(*args, **kwargs), now, INSTALLATION)


def stored(*args: Any, **kwargs: Any) -> dict[str, Any]:
    """Return the status that the plan writes, or the given one if it writes none."""
    observed = view(*args, **kwargs)
    return plan(observed, NOW, INSTALLATION).status or observed.status.to_json()


class Lifecycle:
    """The life cycle of one job, reconcile by reconcile: each status is stored, as by the controller."""

    def __init__(self, pods: str = "", /, **spec: Any) -> None:
        self.spec = spec
        self.status: dict[str, Any] = {}
        self.failure_seen_at: Mapping[str, datetime] = {}
        self.now = NOW
        if pods:
            self.reconcile()
            self.reconcile(pods)

    def reconcile(self, pods: str | list[PodSummary] = "", after: float = 0, **changes: Any) -> Plan:
        """Reconcile so many seconds after the last time, store the status, and return the plan."""
        self.now += timedelta(seconds=after)
        changes = {"failure_seen_at": self.failure_seen_at} | changes
        todo = plan(view(pods, self.status, spec=self.spec, **changes), self.now, INSTALLATION)
        self.status, self.failure_seen_at = todo.status or self.status, todo.failure_seen_at
        return todo

    def condition_status(self, kind: str) -> tuple[str, str]:
        """Return status and reason of a condition."""
        current = condition(self.status, kind)
        return current["status"], current["reason"]

    def message(self, kind: str) -> str:
        """Return the message of a condition."""
        return str(condition(self.status, kind)["message"])


def created(todo: Plan) -> list[str]:
    """Return the names of the pods to be created, without the job's."""
    return [pod["metadata"]["name"].removeprefix("fashion-") for pod in todo.creates]


def deleted(todo: Plan) -> list[str]:
    """Return the names of the pods to be deleted, without the job's."""
    return [name.removeprefix("fashion-") for name in todo.deletes]


def event_reasons(todo: Plan) -> list[str]:
    """Return the reasons of the events."""
    return [event.reason for event in todo.events]


def report(step: int = 5, total: int = 10, attempt: int = 0, **fields: Any) -> TimestampedReport:
    """Return a progress report of worker 0 in training."""
    fields = {"phase": Phase.TRAINING} | fields
    content = ProgressReport(role=Role.WORKER, index=0, attempt=attempt, step=step, total_steps=total, **fields)
    return TimestampedReport(content, "2030-01-02T03:04:05Z")


def failure_in_place(number: int, index: int = 1, **fields: Any) -> RoundFailure:
    """Return the failure of a worker that ended round `number - 1`."""
    standard = {"exit_code": 137, "reason": "Crash", "message": "killed", "counted": True, "root_cause": True}
    return RoundFailure(
        id=f"0-1a-{number}", round=number - 1, role=Role.WORKER, index=index, time=rfc3339(NOW), **(standard | fields)
    )


def launcher_report(
    *failures: RoundFailure,
    restarts: Restarts | None = None,
    number: int = 0,
    waiting_for: str = "",
    attempt: int = 0,
) -> TimestampedReport:
    """Return the report of a gang that trains under launchers, whose newest round is `number`."""
    members = [MemberReport(role=Role.WORKER, index=i, alive=True, phase=Phase.TRAINING) for i in range(2)]
    counted = sum(f.counted for f in failures)
    counts = restarts or Restarts(counted=counted, since_checkpoint=counted)
    waits = [waiting_for] if waiting_for else []
    gang = GangReport(members=members, failures=list(failures), restarts=counts, round=number, waiting_for=waits)
    return report(5, attempt=attempt, gang=gang)


def termination_message(**fields: Any) -> str:
    """Return a termination message as the trainer writes it."""
    return json.dumps({"reason": "Completed", "message": "done"} | fields)


def condition(status: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """Return the condition of a type; it must be there."""
    return next(c for c in status["conditions"] if c["type"] == kind)
