"""How the launchers of an attempt authenticate: by a key in a Secret, which neither the status nor a pod shows."""

import base64
import json
import re
from typing import Any

import pytest
from support.factories import (
    CHECKPOINT,
    UID,
    Lifecycle,
    condition,
    created,
    deleted,
    event_reasons,
    launcher_report,
    pod,
)

from tfdist.contract import JOB_ENV, LAUNCH_KEY_ENV
from tfdist.observed.pod import PodState
from tfdist.planner import Plan
from tfdist_launch.settings import read_settings
from tfdist_trainer.errors import UsageError

BOTH = "worker-0:R worker-1:R"
FIRST, SECOND, THIRD = "a" * 64, "b" * 64, "c" * 64
SECRET = f"fashion-launcher-{UID}"
LAUNCHED: dict[str, Any] = {
    "without": ["training"],
    "image": "own:1",
    "command": ["tfdist-launch", "python", "train.py"],
}


def environments(todo: Plan) -> list[list[dict[str, Any]]]:
    return [made["spec"]["containers"][0]["env"] for made in todo.creates]


def references(todo: Plan) -> list[str]:
    """Return the name of the Secret of which each pod to be created gets the key."""
    return [
        v["valueFrom"]["secretKeyRef"]["name"] for env in environments(todo) for v in env if v["name"] == LAUNCH_KEY_ENV
    ]


def derived(todo: Plan) -> set[str]:
    """Return the tokens that launchers with the key derive in the pods to be created."""
    jobs = [next(v["value"] for v in env if v["name"] == JOB_ENV) for env in environments(todo)]
    return {read_settings({JOB_ENV: job}, FIRST).token for job in jobs}


def key_of(todo: Plan) -> str | None:
    """Return the key in the Secret to be created; None without one."""
    return todo.launcher_secret["stringData"]["key"] if todo.launcher_secret else None


def test_pods_refer_to_the_key_in_the_secret() -> None:
    todo = Lifecycle().reconcile(launcher_key=FIRST)
    for env in environments(todo):
        (reference,) = (v["valueFrom"]["secretKeyRef"] for v in env if v["name"] == LAUNCH_KEY_ENV)
        assert reference == {"name": SECRET, "key": "key"}


def test_the_secret_belongs_to_the_job_and_is_immutable() -> None:
    secret = Lifecycle().reconcile(launcher_key=FIRST).launcher_secret
    assert secret is not None
    assert (secret["type"], secret["immutable"], secret["stringData"]) == ("Opaque", True, {"key": FIRST})
    assert secret["metadata"]["name"] == SECRET
    assert secret["metadata"]["labels"]["tfdist.dev/job-uid"] == UID
    (owner,) = secret["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("TFDistJob", UID, True)


def test_neither_the_status_nor_a_pod_contains_the_key_or_a_token() -> None:
    """Given several attempts, when the job is reconciled, then readers of jobs and pods find nothing to join with."""
    job, shown = Lifecycle(**LAUNCHED), ""
    for pods, after in (("", 0), (BOTH, 0), ("worker-0:R worker-1:F", 0), ("", 60)):
        todo = job.reconcile(pods, after=after, launcher_key=FIRST)
        shown += json.dumps([job.status, [*todo.creates], [*todo.objects]])
    assert job.status["gangs"]["training"]["attempt"] == 1
    assert FIRST not in shown
    assert base64.b64encode(FIRST.encode()).decode() not in shown
    assert not {found for found in re.findall(r"[0-9a-f]{32,}", shown) if found in derived(todo)}


def test_the_secret_is_created_with_the_pods_of_an_attempt_and_at_no_other_time() -> None:
    """Given a job without its pods, when they are created and run, then one plan has the Secret."""
    job = Lifecycle(**LAUNCHED)
    assert key_of(job.reconcile(launcher_key=FIRST)) == FIRST
    assert key_of(job.reconcile("worker-0:P worker-1:P", launcher_key=SECOND)) is None
    assert key_of(job.reconcile(BOTH, launcher_key=SECOND)) is None


def test_a_controller_that_finds_some_pods_created_creates_the_secret_too() -> None:
    """Given a controller killed among its requests, when the next one creates the rest, then a Secret exists."""
    job = Lifecycle(**LAUNCHED)
    job.reconcile(launcher_key=FIRST)
    todo = job.reconcile("worker-0:P", launcher_key=SECOND)
    assert (created(todo), key_of(todo), references(todo)) == (["worker-1"], SECOND, [SECRET])


def test_a_replica_that_is_replaced_alone_shares_the_token_of_the_others() -> None:
    """Given a gang that runs, when one pod is replaced in a later attempt, then it derives the token of the others."""
    job = Lifecycle(**LAUNCHED)
    first = job.reconcile(launcher_key=FIRST)
    job.reconcile(BOTH, report=launcher_report())
    todo = job.reconcile("worker-0:R worker-1:F", report=launcher_report(), launcher_key=SECOND)
    assert created(todo) == ["worker-1-r1"]
    assert derived(todo) == derived(first)
    assert key_of(todo) is None, "a new Secret would have another key than the others"


def test_the_next_attempt_derives_a_token_of_its_own() -> None:
    job = Lifecycle(**LAUNCHED)
    first = job.reconcile()
    job.reconcile(BOTH)
    job.reconcile("worker-0:R worker-1:F")
    following = job.reconcile("", after=60, launcher_key=THIRD)
    assert created(following) == ["worker-0-r1", "worker-1-r1"]
    assert len(derived(first)) == len(derived(following)) == 1
    assert derived(first) != derived(following)
    assert key_of(following) == THIRD


def test_a_launcher_without_a_key_does_not_start() -> None:
    (variable,) = (v["value"] for v in environments(Lifecycle().reconcile())[0] if v["name"] == JOB_ENV)
    with pytest.raises(UsageError, match="TFDIST_LAUNCH_KEY: is missing"):
        read_settings({JOB_ENV: variable}, "")


@pytest.mark.parametrize(
    "job",
    [
        {**LAUNCHED, "command": ["python", "train.py"]},
        {"task": "Evaluate", "checkpoint": CHECKPOINT},
    ],
    ids=["another program", "an evaluation"],
)
def test_a_job_without_launchers_gets_neither_a_secret_nor_a_key(job: dict[str, Any]) -> None:
    todo = Lifecycle(**job).reconcile(launcher_key=FIRST)
    assert todo.creates
    assert todo.launcher_secret is None
    assert LAUNCH_KEY_ENV not in json.dumps([*todo.creates])


def test_a_key_that_a_job_sets_itself_is_replaced() -> None:
    todo = Lifecycle(**LAUNCHED, env=[{"name": LAUNCH_KEY_ENV, "value": "mine"}]).reconcile()
    for env in environments(todo):
        assert [v for v in env if v["name"] == LAUNCH_KEY_ENV and "value" in v] == []


MISSING = f'secret "{SECRET}" not found'


def waiting(message: str, reason: str = "CreateContainerConfigError") -> list[Any]:
    """Return two pods of attempt 0, of which one runs and the other cannot start."""
    stuck = pod("worker-1", "P", reason=reason, message=message)
    assert stuck.state is PodState.PENDING
    return [pod("worker-0", "R"), stuck]


def test_a_deleted_secret_restarts_the_gang_with_a_new_one() -> None:
    """Given a pod that waits for the deleted Secret, when the others have ended, then all start with a new one."""
    job = Lifecycle(**LAUNCHED)
    job.reconcile(launcher_key=FIRST)
    todo = job.reconcile(waiting(MISSING), launcher_key=SECOND)
    assert "Restarting" in event_reasons(todo)
    assert condition(job.status, "Restarting")["reason"] == "LauncherKeyDeleted"
    assert deleted(todo) == ["worker-0", "worker-1"]
    todo = job.reconcile("", after=1, launcher_key=THIRD)
    assert (created(todo), key_of(todo)) == (["worker-0-r1", "worker-1-r1"], THIRD)
    assert job.status.get("restarts", {}).get("counted", 0) == 0


@pytest.mark.parametrize("message", ['secret "other" not found', "couldn't find key key in Secret team/other", ""])
def test_a_pod_that_waits_for_another_secret_restarts_nothing(message: str) -> None:
    job = Lifecycle(**LAUNCHED)
    job.reconcile(launcher_key=FIRST)
    assert deleted(job.reconcile(waiting(message))) == []


def overwritten(pods: str = BOTH) -> Lifecycle:
    """Return a job whose pods have a key, and whose status was replaced by an empty one."""
    job = Lifecycle(**LAUNCHED)
    job.reconcile()
    job.reconcile(pods)
    job.status = {}
    return job


def test_an_overwritten_status_does_not_restart_a_running_gang() -> None:
    todo = (job := overwritten()).reconcile(BOTH)
    assert (created(todo), deleted(todo)) == ([], [])
    assert job.status["phase"] == "Running"
    assert job.status["gangs"]["training"]["attempt"] == 0


def test_an_overwritten_status_does_not_restart_a_starting_gang() -> None:
    todo = overwritten("worker-0:P worker-1:P").reconcile("worker-0:P worker-1:P")
    assert (created(todo), deleted(todo)) == ([], [])


def test_after_an_overwritten_status_no_pod_is_created_that_the_others_reject() -> None:
    """Given pods whose token the status does not define, when one fails, then all restart with a new token."""
    job = overwritten()
    job.reconcile(BOTH, report=launcher_report())
    todo = job.reconcile("worker-0:R worker-1:F", report=launcher_report(), after=1, launcher_key=THIRD)
    assert created(todo) == ["worker-0-r1", "worker-1-r1"]
    assert (set(references(todo)), key_of(todo)) == ({SECRET}, THIRD)
    assert deleted(todo) == ["worker-0"]


def test_a_pod_that_was_not_created_before_the_status_was_overwritten_begins_the_next_attempt() -> None:
    job = overwritten("worker-0:P")
    todo = job.reconcile("worker-0:P")
    assert (created(todo), deleted(todo)) == ([], ["worker-0"])
    todo = job.reconcile("", after=60, launcher_key=THIRD)
    assert created(todo) == ["worker-0-r1", "worker-1-r1"]
    assert (set(references(todo)), key_of(todo)) == ({SECRET}, THIRD)


def test_attempts_go_on_counting_after_an_overwritten_status() -> None:
    job = overwritten()
    job.reconcile("worker-0-r3:R worker-1-r3:R")
    assert job.status["gangs"]["training"]["attempt"] == 3
    assert created(job.reconcile("worker-0-r3:R worker-1-r3:F", after=1)) == ["worker-0-r4", "worker-1-r4"]
