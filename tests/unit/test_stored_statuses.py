"""Statuses that another version has stored: an upgrade or a downgrade while jobs run loses nothing.

`stored_statuses.json` has statuses as version 0.1.0 stores them; together they have each field that the unit tests of
the planner store.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from support import statuses
from support.factories import (
    NOW,
    Lifecycle,
    created,
    deleted,
    launcher_report,
    planned,
    view,
)
from support.statuses import STATED
from tfdist_operator.kube.merge_patch import merge_patch

from tfdist.contract import Restarts
from tfdist.observed.gang_record import stored_record
from tfdist.outcome import read_status, read_status_json
from tfdist.render.gang import GangName
from tfdist.status.phase import is_terminal, phase_of

STORED: list[dict[str, Any]] = json.loads(Path(statuses.__file__).with_name("stored_statuses.json").read_bytes())
BOTH = "worker-0:R worker-1:R"


@pytest.mark.parametrize("number", range(len(STORED)))
def test_a_status_of_an_earlier_version_is_read_whole(number: int) -> None:
    assert read_status(STORED[number]).to_json() == STORED[number]
    assert read_status_json(json.dumps(STORED[number]).encode()) == read_status(STORED[number])


@pytest.mark.parametrize("number", range(len(STORED)))
def test_the_phase_of_an_earlier_version_is_the_one_that_follows_here(number: int) -> None:
    assert phase_of(read_status(STORED[number])) == STORED[number]["phase"]


def test_a_value_of_a_newer_version_costs_only_itself() -> None:
    running = {"type": "Running", "status": "True", "reason": "AllReplicasRunning"} | STATED
    newer = {
        "phase": "Hibernating",
        "conditions": [running, running | {"type": "Hibernating"}],
        "gangs": {"training": {"attempt": 3, "lastFullRestart": 3, "counted": 2, "excludedNodes": 5, "mood": "good"}},
        "progress": {"step": 5, "percent": 250, "metrics": {"loss": 0.5}},
        "replicas": {"worker": {"desired": 2}},
    }
    status = read_status(newer)
    assert read_status_json(json.dumps(newer).encode()) == status
    record = stored_record(status, GangName.TRAINING)
    assert record is not None
    assert (record.attempt, record.counted, record.excluded_nodes) == (3, 2, ())
    assert status.progress is not None
    assert (status.progress.step, status.progress.percent, status.progress.metrics) == (5, None, {"loss": 0.5})
    assert [each.type for each in status.conditions or ()] == ["Running"]
    assert (status.phase, status.replicas) == (None, {})


def test_a_finished_job_stays_finished_if_a_part_of_its_status_cannot_be_read() -> None:
    ended = {"type": "Succeeded", "status": "True", "reason": "Succeeded"} | STATED
    assert is_terminal(read_status({"conditions": [{"type": "Succeeded"}, ended], "completionTime": 5}))


def test_an_idle_job_is_not_written_because_of_the_version_that_stored_its_status() -> None:
    stored = planned(BOTH, planned("worker-0:P worker-1:P").status).status
    assert stored is not None
    assert planned(BOTH, json.loads(json.dumps(stored)), now=NOW).status is None
    assert view(BOTH, stored).status.to_json() == stored


BEFORE = {
    "attempt": 1,
    "floor": 1,
    "ran": True,
    "launched": True,
    "launcherKey": True,
    "avoided": ["node-a"],
    "counted": 1,
}
"""The state of a gang as commits before 0.1.0 have stored it."""
SCRIPT: dict[str, Any] = {"command": ["python", "train.py"]}
LAUNCHED: dict[str, Any] = {"command": ["tfdist-launch", "python", "train.py"]}


def upgraded(**spec: Any) -> Lifecycle:
    """Return a job whose pods run in attempt 1, and whose status a commit before 0.1.0 has stored."""
    job = Lifecycle(BOTH, **spec)
    job.reconcile("worker-0:R worker-1:F")
    job.reconcile("", after=60)
    job.reconcile(SECOND)
    kept = {name: job.status["gangs"]["training"][name] for name in ("template", "generation")}
    job.status["gangs"]["training"] = BEFORE | kept
    return job


SECOND = "worker-0-r1:R worker-1-r1:R"


@pytest.mark.parametrize("spec", [SCRIPT, LAUNCHED], ids=["without launchers", "with launchers"])
def test_the_pods_of_a_gang_go_on_if_its_stored_state_lacks_the_last_full_restart(spec: dict[str, Any]) -> None:
    job = upgraded(**spec)
    todo = job.reconcile(SECOND, after=1)
    assert (created(todo), deleted(todo), job.status["phase"]) == ([], [], "Running")
    record = job.status["gangs"]["training"]
    assert (record["attempt"], record["lastFullRestart"], record["counted"]) == (1, 1, 1)


@pytest.mark.parametrize("spec", [SCRIPT, LAUNCHED], ids=["without launchers", "with launchers"])
def test_such_a_gang_restarts_as_a_whole_when_one_of_its_pods_is_missing(spec: dict[str, Any]) -> None:
    job = upgraded(**spec)
    job.reconcile(SECOND, after=1)
    todo = job.reconcile("worker-0-r1:R", after=1)
    assert (created(todo), deleted(todo)) == (["worker-0-r2", "worker-1-r2"], ["worker-0-r1"])


def test_restarts_that_the_launchers_reported_before_do_not_count_again() -> None:
    job = upgraded(**LAUNCHED)
    restarts = Restarts(counted=1, since_checkpoint=1)
    job.reconcile(SECOND, after=1, report=launcher_report(attempt=1, restarts=restarts))
    assert job.status["restarts"]["counted"] == 1


def test_replicas_of_several_attempts_begin_a_common_one() -> None:
    """Given that one replica was replaced alone, when the state lacks the others' attempt, then no two pods are one."""
    job = upgraded(**LAUNCHED)
    job.status["gangs"]["training"] |= {"attempt": 2, "replaced": {"worker-1": 2}}
    pods = "worker-0-r1:R worker-1-r2:R"
    todo = job.reconcile(pods, after=1)
    assert created(todo) == []
    job.reconcile(pods, after=1)
    todo = job.reconcile("", after=700)
    assert created(todo) == ["worker-0-r3", "worker-1-r3"]


def test_fields_of_a_newer_version_survive_a_write_of_this_one() -> None:
    """Given a status with unknown fields, when this version changes it, then its patch does not mention them."""
    job = Lifecycle(BOTH)
    before = job.status | {"mood": "good", "gangs": {"training": job.status["gangs"]["training"] | {"mood": "good"}}}
    after = planned("worker-0:R worker-1:F", before).status
    assert after is not None
    changes = merge_patch(read_status(before).to_json(), after)
    assert "mood" not in changes
    assert "mood" not in changes["gangs"]["training"]
