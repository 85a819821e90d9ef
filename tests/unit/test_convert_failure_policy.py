"""Restart policies become rules about exit codes, and a limit on restarts."""

from typing import Any

import pytest
from support.tfjobs import replica, tfjob

from tfdist.convert import convert
from tfdist.validation import parse

Json = dict[str, Any]

DISRUPTED = {"action": "RestartWithoutCount", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
NEVER = {"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [0]}}
PERMANENT = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": list(range(1, 128))}}


def converted(limit: int | None = None, *, dynamic: bool = False, **policies: str) -> tuple[Json, dict[str, str]]:
    """Return the spec, and the notes by path, of a TFJob whose types have these restart policies."""
    types = {key: replica(1, restart_policy=policy) for key, policy in policies.items()}
    given = tfjob(types, policy=None if limit is None else {"backoffLimit": limit}, enableDynamicWorker=dynamic)
    made = convert(given)
    parse(made.manifest)
    return made.manifest["spec"], {note.path: note.message for note in made.notes}


def rules(**policies: str) -> list[Json]:
    made: list[Json] = converted(None, dynamic=False, **policies)[0].get("failurePolicy", {}).get("rules", [])
    return made


@pytest.mark.parametrize("policy", ["Never", ""])
def test_never_which_is_the_default_fails_the_job_on_any_code_but_0(policy: str) -> None:
    assert rules(Worker=policy) == [DISRUPTED, NEVER]


def test_exit_code_fails_the_job_on_1_to_127_and_leaves_128_to_255_to_the_restart() -> None:
    assert rules(Worker="ExitCode") == [DISRUPTED, PERMANENT]


@pytest.mark.parametrize("policy", ["OnFailure", "Always"])
def test_on_failure_and_always_are_the_default_behaviour(policy: str) -> None:
    assert rules(Worker=policy) == []


def test_a_rule_names_its_roles_where_they_differ() -> None:
    assert rules(Chief="Never", Worker="ExitCode", PS="OnFailure") == [
        DISRUPTED,
        NEVER | {"roles": ["chief"]},
        PERMANENT | {"roles": ["worker"]},
    ]


def test_a_rule_for_all_names_none() -> None:
    assert rules(Chief="Never", Worker="Never") == [DISRUPTED, NEVER]


def test_a_disruption_restarts_with_any_policy_and_has_a_note() -> None:
    _, notes = converted(Worker="Never")
    assert "an evicted, preempted or lost pod no longer does" in notes["spec.tfReplicaSpecs.Worker.restartPolicy"]


def test_a_note_for_several_replica_types_is_added_once() -> None:
    _, notes = converted(Chief="OnFailure", Worker="OnFailure", PS="Never")
    assert notes["spec.tfReplicaSpecs.Chief.restartPolicy"].startswith("OnFailure (Chief, Worker): a failure starts")
    assert "spec.tfReplicaSpecs.Worker.restartPolicy" not in notes
    assert notes["spec.tfReplicaSpecs.PS.restartPolicy"].startswith("Never: any exit code")


def test_exit_codes_that_a_restart_does_not_fix_have_a_note() -> None:
    _, notes = converted(Worker="OnFailure")
    assert "64, 65, 66, 78, 126 and 127 fail the job" in notes["spec.tfReplicaSpecs.Worker.restartPolicy"]


def test_a_replica_that_ends_with_0_is_done_even_under_always() -> None:
    _, notes = converted(Worker="Always")
    assert "exits with 0 has succeeded" in notes["spec.tfReplicaSpecs.Worker.restartPolicy"]


@pytest.mark.parametrize("policy", ["OnFailure", "Always", "ExitCode"])
def test_no_limit_is_the_highest_limit(policy: str) -> None:
    spec, notes = converted(Worker=policy)
    assert spec["runPolicy"]["backoffLimit"] == 1000
    assert "a TFJob without it has no limit" in notes["spec.runPolicy.backoffLimit"]


def test_where_every_failure_ends_the_job_no_limit_is_written() -> None:
    spec, notes = converted(Worker="Never")
    assert "backoffLimit" not in spec["runPolicy"]
    assert "spec.runPolicy.backoffLimit" not in notes


def test_a_limit_is_kept_and_counts_something_else_now() -> None:
    spec, notes = converted(4, Worker="OnFailure")
    assert spec["runPolicy"]["backoffLimit"] == 4
    assert "counts attempts" in notes["spec.runPolicy.backoffLimit"]


def test_a_dynamic_worker_never_failed_the_job_and_does_not_now() -> None:
    spec, notes = converted(dynamic=True, Worker="Never")
    assert "failurePolicy" not in spec
    assert spec["runPolicy"]["backoffLimit"] == 1000
    assert "never failed the job" in notes["spec.tfReplicaSpecs.Worker.restartPolicy"]


def test_other_types_of_a_job_with_dynamic_workers_keep_their_rule() -> None:
    spec, _ = converted(dynamic=True, Chief="Never", Worker="Never")
    assert spec["failurePolicy"]["rules"] == [DISRUPTED, NEVER | {"roles": ["chief"]}]
