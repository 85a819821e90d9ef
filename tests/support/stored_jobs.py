"""Fixed jobs as the API server stores them, for tests of what the command and the client show."""

from datetime import timedelta
from typing import Any, Final

from support.factories import NOW, manifest
from tfdist.client.events import JobEvent
from tfdist.client.job import Job
from tfdist.timestamps import rfc3339

LATER: Final = NOW + timedelta(minutes=7)
"""The time at which the jobs are shown."""


def at(seconds: float) -> str:
    """Return the time so many seconds before `LATER`."""
    return rfc3339(LATER - timedelta(seconds=seconds))


def stored(name: str, status: dict[str, Any], age: float = 3600, namespace: str = "team", **spec: Any) -> Job:
    """Return a job that is so many seconds old."""
    document = manifest(name, namespace, **({"strategy": "MultiWorkerMirrored"} | spec))
    document["metadata"] |= {
        "creationTimestamp": at(age),
        "generation": 1,
        "resourceVersion": "12",
        "managedFields": [{"manager": "kubectl"}],
    }
    return Job(document | {"status": {"observedGeneration": 1} | status})


def condition(kind: str, status: str, reason: str, message: str, seconds: float = 60) -> dict[str, Any]:
    """Return a condition that has its status for so many seconds."""
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "observedGeneration": 1,
        "lastTransitionTime": at(seconds),
    }


def counts(desired: int, ready: int, failed: int = 0) -> dict[str, int]:
    """Return the numbers of replicas of a role."""
    pending = desired - ready - failed
    return {"desired": desired, "pending": pending, "running": ready, "ready": ready, "succeeded": 0, "failed": failed}


RUNNING: Final = stored(
    "fashion",
    {
        "phase": "Running",
        "replicas": {"chief": counts(1, 1), "worker": counts(2, 1)},
        "restarts": {"counted": 1, "uncounted": 2, "sinceCheckpoint": 0},
        "progress": {
            "step": 747,
            "totalSteps": 1407,
            "percent": 53,
            "epoch": 2,
            "etaSeconds": 11,
            "examplesPerSecond": 7462.3,
            "stepTimeMillis": 34.3,
            "metrics": {"loss": 0.34289, "accuracy": 0.875},
            "lastCheckpoint": {"step": 700, "path": "/ckpt/fashion/700", "time": at(42)},
            "reportedAt": at(3),
        },
        "evaluation": {
            "latest": {"step": 700, "metrics": {"accuracy": 0.8831}, "examples": 10000, "time": at(30)},
            "best": {"step": 500, "metrics": {"accuracy": 0.8894}, "examples": 10000, "time": at(90)},
        },
        "scheduling": {"system": "Kueue", "queue": "team-queue"},
        "usage": {
            "gpuSeconds": 9000.0,
            "cpuSeconds": 18000.0,
            "gpus": 2.0,
            "cpus": 4.5,
            "updatedAt": at(1800),
            "productiveSeconds": 2700.0,
            "lostSeconds": 180.0,
            "step": 747,
        },
        "attempts": [
            {"attempt": 0, "round": 0, "startedAt": at(3600), "endedAt": at(2400), "reason": "Crash",
             "rootCause": "worker-1", "node": "gpu-node-07", "fromStep": 0, "toStep": 312, "secondsToRecover": 14},
            {"attempt": 0, "round": 1, "startedAt": at(2400), "endedAt": at(1900), "reason": "RestartRequested",
             "fromStep": 300, "toStep": 500, "secondsToRecover": 131},
            {"attempt": 1, "startedAt": at(1900), "fromStep": 500, "toStep": 747},
        ],
        "history": [{"step": 747, "time": at(3), "metrics": {"loss": 0.34289}, "examplesPerSecond": 7462.3}],
        "conditions": [condition("PodsReady", "True", "AllReplicasRunning", "all 3 replicas run"),
                       condition("Running", "True", "AllReplicasRunning", "all 3 replicas run; chief-0 leads")],
        "summary": {
            "ready": "2/3",
            "progress": "53%",
            "eta": "11s",
            "metric": "accuracy=0.8831",
            "restarts": "3",
            "message": "all 3 replicas run; chief-0 leads",
        },
    },
    checkpoint={"directory": "/ckpt/{name}"},
)  # fmt: skip

_CAUSE: Final = (
    "worker-1 (pod resnet-50-with-a-long-name-worker-1-r1, node gpu-node-07) ended with exit code 1: ValueError: no "
    "such column: price; two attempts in a row ended with it and neither wrote a checkpoint: a restart would fail "
    "the same way"
)


def _failure(attempt: int, **changes: Any) -> dict[str, Any]:
    suffix = f"-r{attempt}" if attempt else ""
    return {
        "time": at(900 - 300 * attempt),
        "attempt": attempt,
        "role": "worker",
        "index": 1,
        "pod": f"resnet-50-with-a-long-name-worker-1{suffix}",
        "node": "gpu-node-07",
        "exitCode": 1,
        "reason": "ApplicationError",
        "message": "ValueError: no such column: price",
        "counted": True,
        "rootCause": True,
    } | changes


FAILED: Final = stored(
    "resnet-50-with-a-long-name",
    {
        "phase": "Failed",
        "replicas": {"worker": counts(2, 0, 2)},
        "restarts": {"counted": 1, "uncounted": 0, "sinceCheckpoint": 1},
        "failures": [
            _failure(0),
            _failure(1),
            _failure(1, index=0, exitCode=75, reason="Secondary", rootCause=False, counted=False,
                     message="lost worker-1"),
        ],
        "conditions": [condition("Running", "False", "RepeatedError", _CAUSE, 600),
                       condition("Failed", "True", "RepeatedError", _CAUSE, 600)],
        "summary": {"ready": "0/2", "restarts": "1", "message": _CAUSE},
    },
    age=200_000,
)  # fmt: skip

_USAGE: Final = (
    "worker-0 (pod prices-worker-0, node node-7) ended with exit code 64: usage: train.py DATA; exit code 64 is that "
    "of a user error, which a restart does not correct"
)

PRICES: Final = stored(
    "prices",
    {
        "phase": "Failed",
        "replicas": {"worker": counts(1, 0, 1)},
        "failures": [_failure(0, index=0, pod="prices-worker-0", node="node-7", exitCode=64, reason="UserError",
                              message="usage: train.py DATA", counted=False, time=at(200))],
        "usage": {"gpuSeconds": 0.0, "cpuSeconds": 52.0, "updatedAt": at(200)},
        "attempts": [{"attempt": 0, "startedAt": at(252), "endedAt": at(200), "reason": "UserError",
                      "rootCause": "worker-0", "node": "node-7"}],
        "conditions": [condition("Running", "False", "UserError", _USAGE, 200),
                       condition("Failed", "True", "UserError", _USAGE, 200)],
        "summary": {"ready": "0/1", "restarts": "0", "message": _USAGE},
    },
    age=260,
    worker={"replicas": 1},
)  # fmt: skip
"""A job whose arguments are wrong."""

UNSCHEDULABLE: Final = stored(
    "too-big",
    {
        "phase": "Starting",
        "replicas": {"worker": counts(2, 1)},
        "conditions": [
            condition("PodsReady", "False", "Unschedulable", "worker-1 cannot start: 0/3 nodes are available")
        ],
        "summary": {"ready": "1/2", "restarts": "0", "message": "worker-1 cannot start: 0/3 nodes are available"},
    },
    age=95,
)

NEW: Final = stored("new", {}, age=1)
"""A job that the controller has not seen."""

NEWER: Final = stored(
    "newer",
    {
        "phase": "Hibernating",
        "conditions": [condition("Frozen", "True", "PowerSaving", "the nodes sleep"),
                       condition("Running", "True", "AllReplicasRunning", "the only replica runs")],
        "replicas": {"worker": counts(1, 1) | {"hibernating": 1}},
        "progress": {"step": 5, "energyJoules": 7, "metrics": {"loss": 0.5}},
        "energy": {"joules": 7},
        "summary": {"ready": "1/1", "restarts": "0", "watts": "7"},
    },
)  # fmt: skip
"""A job of a later version of TFDist: another phase, condition and fields."""

JOBS: Final = [RUNNING, FAILED, UNSCHEDULABLE, NEW, NEWER]


def event(reason: str, message: str, seconds: float, **changes: Any) -> JobEvent:
    """Return an event about the job, last observed so many seconds ago."""
    last = LATER - timedelta(seconds=seconds)
    fields: dict[str, Any] = {
        "type": "Normal", "reason": reason, "message": message, "object": "job", "source": "tfdist.dev/controller",
        "first": last, "last": last, "count": 1, "uid": f"{reason}-{seconds}", "version": "1",
    }  # fmt: skip
    return JobEvent(**(fields | changes))


EVENTS: Final = [
    event("BackOff", 'Back-off pulling image "registry.example.com/team/trainer:1"', 700, type="Warning", count=4,
          object="pod/resnet-50-with-a-long-name-worker-1", source="kubelet", first=LATER - timedelta(seconds=1000)),
    event("Restarting", "worker-1 ended with exit code 1: ValueError: no such column: price", 650, type="Warning"),
    event("Failed", _CAUSE, 600, type="Warning"),
]  # fmt: skip
