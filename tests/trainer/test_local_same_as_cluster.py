"""The same exits of replicas have the same consequences in a local run and on a cluster (`support.cluster_model`)."""

import json
from typing import Any, NamedTuple

import pytest
from support import model_jobs
from support.cluster_model import RESULT, Cluster
from support.factories import termination_message
from support.local_runs import LocalRuns
from support.statuses import is_finished

from tfdist.observed.pod import PodState


class Exit(NamedTuple):
    """A replica of an attempt ends with a code, once all replicas run; not before the attempt `after` of its gang."""

    replica: str
    attempt: int
    code: int
    after: int = 0


PROGRAM = """
import json, os, pathlib, sys, time
job = json.loads(os.environ["TFDIST_JOB"])
evaluates = job["role"] == "evaluation"
def all_run(attempt):
    status = json.loads(pathlib.Path(".tfdist/job/status.json").read_text())
    counts = [each for role, each in status["replicas"].items() if (role == "evaluation") == evaluates]
    gang = status["gangs"]["evaluation" if evaluates else "training"]
    return gang["attempt"] >= attempt and not any(each["pending"] for each in counts)
for replica, attempt, code, after in json.loads(os.environ["EXITS"]):
    if (replica, attempt) == (f"{job['role']}-{job['index']}", job["attempt"]):
        while not all_run(max(attempt, after)):
            time.sleep(0.02)
        if code == 0:
            pathlib.Path(os.environ["TFDIST_TERMINATION_LOG"]).write_text(os.environ["RESULT"])
        sys.exit(code)
time.sleep(600)
"""
TOGETHER = {"successPolicy": "AllWorkers"}
SERVERS = {"strategy": "ParameterServer", "chief": {}, "worker": {"replicas": 1}, "ps": {"replicas": 1}}
ONCE = {"runPolicy": {"backoffLimit": 1}}
SAVED = {"directory": "/c", "volume": {"persistentVolumeClaim": {"claimName": "saved"}}}
EVALUATED = {"evaluation": {"mode": "AfterTraining"}, "checkpoint": SAVED}
RULE = {"rules": [{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [3]}}]}
FAILS_JOB = {"evaluation": {"mode": "AfterTraining", "onFailure": "FailJob"}, "checkpoint": SAVED}

CASES: dict[str, tuple[dict[str, Any], list[Exit]]] = {
    "a failure restarts all": (TOGETHER, [Exit("worker-1", 0, 3), Exit("worker-0", 1, 0), Exit("worker-1", 1, 0)]),
    "a preemption is not counted": (ONCE, [Exit("worker-1", 0, 42), Exit("worker-0", 1, 137), Exit("worker-0", 2, 0)]),
    "failures beyond the limit": (ONCE, [Exit("worker-1", 0, 3), Exit("worker-0", 1, 137)]),
    "a user error": ({}, [Exit("worker-0", 0, 64)]),
    "an ignored failure": ({"failurePolicy": RULE}, [Exit("worker-1", 0, 3), Exit("worker-0", 0, 0)]),
    "a worker of parameter servers restarts alone": (
        SERVERS,
        [Exit("worker-0", 0, 3), Exit("chief-0", 0, 0, after=1)],
    ),
    "an evaluation follows": (
        EVALUATED,
        [Exit("worker-0", 0, 0), Exit("evaluation-1", 0, 3), Exit("evaluation-0", 1, 0)],
    ),
    "an evaluation that fails fails the job": (FAILS_JOB, [Exit("worker-0", 0, 0), Exit("evaluation-0", 0, 64)]),
}


def spec_of(more: dict[str, Any], exits: list[Exit]) -> dict[str, Any]:
    given = {"EXITS": json.dumps(exits), "RESULT": termination_message(evaluation=RESULT)}
    variables = [{"name": name, "value": value} for name, value in given.items()]
    return {
        "image": "user/program:1",
        "command": ["python", "-c", PROGRAM],
        "template": {
            "spec": {
                "terminationGracePeriodSeconds": 1,
                "containers": [{"name": "tensorflow", "env": variables}],
            }
        },
        **more,
    }


def on_a_cluster(kind: str, exits: list[Exit]) -> dict[str, Any]:
    """Return the final status of a job in the model of a cluster."""
    cluster = Cluster(kind)
    while cluster.dirty or not is_finished(cluster.true.status):
        cluster.sync()
        cluster.reconcile()
        if cluster.dirty or is_finished(cluster.true.status):
            continue
        live = sorted(name for name, pod in cluster.pods.items() if not pod.ended or pod.deleting)
        begins = [name for name in live if cluster.pods[name].deleting or cluster.pods[name].state is PodState.PENDING]
        ends = [(name, code) for name in live if (code := due(cluster, name, exits)) is not None]
        if begins or ends:
            name, code = (begins[0], 0) if begins else ends[0]
            cluster.happen(live.index(name), code)
        else:
            assert cluster.timer is not None, "nothing more happens"
            cluster.now, cluster.dirty = max(cluster.now, cluster.timer), True
    return cluster.true.status


def due(cluster: Cluster, name: str, exits: list[Exit]) -> int | None:
    """Return the code with which a running pod ends now; None for one that runs on."""
    pod, training = cluster.pods[name], cluster.true.status["gangs"].get("training", {})
    mine = (each for each in exits if (each.replica, each.attempt) == (f"{pod.role}-{pod.index}", pod.attempt))
    return next((each.code for each in mine if each.after <= training.get("attempt", 0)), None)


def outcome(status: dict[str, Any]) -> dict[str, Any]:
    """Return what does not depend on times, names of nodes, and texts that programs write."""
    conditions = {found["type"]: (found["status"], found["reason"]) for found in status["conditions"]}
    fields = ("attempt", "role", "index", "exitCode", "reason", "counted", "rootCause")
    failures = [{field: failure.get(field) for field in fields} for failure in status.get("failures", ())]
    rest = {name: status[name] for name in ("phase", "attempt", "restarts")}
    return rest | {"conditions": conditions, "failures": failures}


WITNESSES = {"a failure restarts all", "a worker of parameter servers restarts alone"}


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=() if case in WITNESSES else pytest.mark.long) for case in CASES]
)
def test_the_same_exits_have_the_same_outcome(case: str, start_run: LocalRuns, monkeypatch: pytest.MonkeyPatch) -> None:
    more, exits = CASES[case]
    spec = spec_of(more, exits)
    monkeypatch.setitem(model_jobs.JOBS, case, spec)
    run = start_run(PROGRAM, **spec)
    expected = outcome(on_a_cluster(case, exits))
    _, output = run.end()
    assert outcome(run.status()) == expected, output
