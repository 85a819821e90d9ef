"""Strategy `Independent`: each replica is a restart domain of its own, and the success policy ends the job."""

import dataclasses
import json
from typing import Any

import pytest
from support.factories import INSTALLATION, Lifecycle, created, deleted, event_reasons, manifest, pod, report

from tfdist.api.gang_system import GangSystem
from tfdist.observed.job_view import Contention, ProbeResult, StepCadence
from tfdist.observed.pod import PodSummary
from tfdist.planner.plan import Plan
from tfdist.timestamps import rfc3339
from tfdist.validation import ValidationFailed, parse, warnings

ALL = "chief-0:R worker-0:R worker-1:R"
SPEC: dict[str, Any] = {"strategy": "Independent", "chief": {}, "training": {"script": "/code/search.py"}}
NO_NODE = pod("worker-1", "P", node="", reason="Unschedulable", message="0/2 nodes are available: 2 Insufficient cpu.")


def job(pods: str = ALL, **changes: Any) -> Lifecycle:
    return Lifecycle(pods, **{**SPEC, **changes})


def others(*more: PodSummary) -> list[PodSummary]:
    return [pod("chief-0"), pod("worker-0"), *more]


def failed(name: str = "worker-1", code: int = 1, **fields: Any) -> PodSummary:
    return pod(name, "F", exit_code=code, **fields)


def again(attempt: int, letter: str = "R", **fields: Any) -> PodSummary:
    """Return a pod of worker 1, replaced alone in an attempt."""
    return pod(f"worker-1-r{attempt}", letter, generation="0", **fields)


def variables(manifest_of_pod: dict[str, Any]) -> dict[str, str]:
    [container] = manifest_of_pod["spec"]["containers"]
    return {each["name"]: each.get("value", "") for each in container["env"]}


def first_pods(**changes: Any) -> Plan:
    return Lifecycle(**{**SPEC, **changes}).reconcile()


# -- restarts


def test_a_failed_replica_restarts_alone_and_the_others_stay() -> None:
    story = job()
    todo = story.reconcile(others(failed()))
    assert created(todo) == ["worker-1-r1"]
    assert deleted(todo) == []
    assert story.status["phase"] == "Running"
    assert story.condition_status("PodsReady") == ("False", "Restarting")
    assert story.status["restarts"] == {"counted": 1, "uncounted": 0, "sinceCheckpoint": 1}
    todo = story.reconcile(others(failed(), again(1)))
    assert (created(todo), deleted(todo)) == ([], [])
    assert story.condition_status("PodsReady") == ("True", "AllReplicasRunning")


def test_a_failed_chief_restarts_alone_too() -> None:
    story = job()
    todo = story.reconcile([failed("chief-0"), pod("worker-0"), pod("worker-1")])
    assert (created(todo), deleted(todo)) == (["chief-0-r1"], [])
    assert story.condition_status("Running")[0] == "True", "the workers run"


def test_a_replica_that_lost_a_peer_is_replaced_without_a_wait_for_the_failure_of_the_peer() -> None:
    todo = job().reconcile(others(failed(code=75)))
    assert created(todo) == ["worker-1-r1"]


def test_an_evicted_replica_restarts_alone_without_a_count() -> None:
    story = job()
    todo = story.reconcile(others(failed(disrupted=True)))
    assert created(todo) == ["worker-1-r1"]
    assert story.status["restarts"] == {"counted": 0, "uncounted": 1, "sinceCheckpoint": 0}


def test_a_job_of_which_no_replica_runs_any_more_restarts_until_one_runs() -> None:
    story = job()
    story.reconcile([failed("chief-0"), failed("worker-0"), failed("worker-1")])
    assert (story.status["phase"], story.condition_status("Running")[0]) == ("Restarting", "False")
    waits = [pod("worker-0-r2", "P", generation="0"), pod("worker-1-r3", "P", generation="0")]
    story.reconcile([pod("chief-0-r1", generation="0"), *waits])
    assert (story.status["phase"], story.condition_status("Running")) == ("Running", ("True", "WorkerMissing"))


def test_the_limit_is_that_of_the_job_and_one_replica_can_exceed_it() -> None:
    story = job(runPolicy={"backoffLimit": 1})
    story.reconcile(others(failed()))
    story.reconcile(others(again(1)))
    todo = story.reconcile(others(again(1, "F", exit_code=1)))
    assert story.condition_status("Failed") == ("True", "BackoffLimitExceeded")
    assert "worker-1 (pod fashion-worker-1-r1" in story.message("Failed")
    assert created(todo) == []
    assert deleted(story.reconcile(others(again(1, "F")), after=10)) == ["chief-0", "worker-0"]


def test_the_same_error_of_two_replicas_is_no_repetition() -> None:
    """Both lose their chief: `RepeatedError`, the rule for a gang, would fail the job."""
    story, lost = job(), "UNAVAILABLE: failed to connect to all addresses"
    story.reconcile(others(failed(message=lost)))
    todo = story.reconcile([pod("chief-0"), failed("worker-0", message=lost), again(1)])
    assert story.status["phase"] == "Running"
    assert todo.requeue_after_seconds, "the second failure that counts has to wait"
    assert created(story.reconcile([pod("chief-0"), again(1)], after=todo.requeue_after_seconds)) == ["worker-0-r2"]


def test_the_eviction_of_a_replica_that_has_run_for_hours_does_not_end_the_delay_of_another() -> None:
    story = job(runPolicy={"backoffLimit": 20})
    for attempt in range(5):
        worker = again(attempt, "F", exit_code=137) if attempt else failed(code=137)
        worker = dataclasses.replace(worker, scheduled_at=rfc3339(story.now))
        todo = story.reconcile(others(worker))
        if attempt < 4:
            story.reconcile(others(again(attempt + 1)), after=todo.requeue_after_seconds or 0)
    assert todo.requeue_after_seconds == pytest.approx(72, abs=9)
    evicted = [pod("chief-0"), pod("worker-0", "F", disrupted=True, scheduled_at="2030-01-01T00:00:00Z")]
    assert created(story.reconcile(evicted, after=1)) == []
    assert created(story.reconcile([pod("chief-0")], after=80)) == ["worker-0-r6", "worker-1-r5"]


def test_a_user_error_fails_the_job_as_with_any_strategy() -> None:
    story = job()
    story.reconcile(others(failed(code=64)))
    assert story.condition_status("Failed") == ("True", "UserError")


def test_a_rule_of_the_failure_policy_may_let_a_replica_go() -> None:
    story = job(failurePolicy={"rules": [{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [3]}}]})
    todo = story.reconcile(others(failed(code=3)))
    assert (created(todo), story.status["phase"], story.status["restarts"]["counted"]) == ([], "Running", 0)


def test_a_leader_without_progress_restarts_alone_and_no_worker_counts_as_behind() -> None:
    story = job(runPolicy={"progressDeadlineSeconds": 60})
    cadence = StepCadence(attempt=0, last_progress_at="2030-01-02T03:04:05Z")
    todo = story.reconcile(others(pod("worker-1")), after=61, report=report(), cadence=cadence)
    found = ProbeResult(todo.probe_id, "worker-1", "worker-1: step 3")
    todo = story.reconcile(others(pod("worker-1")), report=report(), cadence=cadence, probe_result=found)
    assert created(todo) == ["chief-0-r1"]
    assert story.status["failures"][-1]["pod"] == "fashion-chief-0"
    assert "worker-0" not in deleted(todo)


# -- success


def test_the_chiefs_success_ends_the_job_and_the_workers_are_deleted() -> None:
    story = job()
    story.reconcile("chief-0:S worker-0:R worker-1:R")
    todo = story.reconcile("chief-0:S worker-0:R worker-1:R", after=10)
    assert story.status["phase"] == "Succeeded"
    assert deleted(todo) == ["worker-0", "worker-1"]


def test_workers_stay_after_the_success_where_the_clean_up_keeps_them() -> None:
    story = job(runPolicy={"cleanPodPolicy": "None"})
    story.reconcile("chief-0:S worker-0:R worker-1:R")
    todo = story.reconcile("chief-0:S worker-0:R worker-1:R", after=10)
    assert (story.status["phase"], deleted(todo)) == ("Succeeded", [])


def test_without_a_chief_the_success_of_worker_0_ends_the_job() -> None:
    story = Lifecycle("worker-0:R worker-1:R", strategy="Independent", training=SPEC["training"])
    story.reconcile("worker-0:R worker-1:S")
    assert story.status["phase"] == "Running"
    story.reconcile("worker-0:S worker-1:S")
    assert story.status["phase"] == "Succeeded"


def test_all_workers_must_succeed_with_that_policy_and_one_that_has_is_not_started_again() -> None:
    story = job(successPolicy="AllWorkers")
    todo = story.reconcile([pod("chief-0", "S"), pod("worker-0", "S"), failed()])
    assert (created(todo), story.status["phase"]) == (["worker-1-r1"], "Restarting")
    story.reconcile([pod("chief-0", "S"), pod("worker-0", "S"), again(1)])
    assert story.status["phase"] == "Running"
    story.reconcile([pod("chief-0", "S"), pod("worker-0", "S"), again(1, "S")])
    assert story.status["phase"] == "Succeeded"


# -- start and suspension


def test_replicas_that_run_do_not_wait_for_one_that_has_no_node() -> None:
    story = job("")
    story.reconcile()
    todo = story.reconcile(others(NO_NODE))
    assert (story.status["phase"], story.condition_status("Running")) == ("Running", ("True", "WorkerMissing"))
    assert event_reasons(todo) == ["Running"]
    assert story.status["startTime"]
    assert event_reasons(story.reconcile(others(NO_NODE), after=60)) == []
    story.reconcile("chief-0:S worker-0:R worker-1:P")
    assert story.status["phase"] == "Succeeded", "the chief does not wait either"


def test_replicas_keep_their_nodes_though_other_jobs_wait_for_nodes() -> None:
    story = job("")
    story.reconcile()
    for _ in range(3):
        todo = story.reconcile(others(NO_NODE), after=400, contention=Contention(others=3, is_oldest=False))
        assert (deleted(todo), story.status.get("attempt", 0)) == ([], 0)


def test_a_suspended_job_ends_all_replicas_and_each_starts_again_in_the_next_attempt() -> None:
    story = job()
    story.reconcile(others(failed()))
    story.spec = {**story.spec, "runPolicy": {"suspend": True}}
    todo = story.reconcile(others(again(1)))
    assert sorted(deleted(todo)) == ["chief-0", "worker-0", "worker-1-r1"]
    story.reconcile("")
    assert story.status["phase"] == "Suspended"
    story.spec = {**story.spec, "runPolicy": {"suspend": False}}
    assert created(story.reconcile("")) == ["chief-0-r2", "worker-0-r2", "worker-1-r2"]


# -- pods


def test_no_replica_has_a_tf_config_or_a_launcher_and_each_knows_the_addresses_of_all() -> None:
    for made in first_pods().creates:
        found = variables(made)
        settings = json.loads(found["TFDIST_JOB"])
        assert "TF_CONFIG" not in found
        assert "launch" not in settings
        assert settings["addresses"] == {
            "chief": ["chief-0.fashion.team.svc:2222"],
            "worker": ["worker-0.fashion.team.svc:2222", "worker-1.fashion.team.svc:2222"],
        }
        assert ".fashion.team.svc" in found["no_grpc_proxy"], "gRPC between replicas goes past a proxy"
    assert [json.loads(variables(made)["TFDIST_JOB"])["index"] for made in first_pods().creates] == [0, 0, 1]


def test_no_pod_group_is_created_although_the_cluster_has_a_gang_scheduler() -> None:
    served = frozenset({GangSystem.NATIVE, GangSystem.VOLCANO})
    todo = Lifecycle(**SPEC).reconcile(served_systems=served)
    assert [each["kind"] for each in todo.objects if each["kind"] == "PodGroup"] == []
    assert all("schedulingGroup" not in made["spec"] for made in todo.creates)


@pytest.mark.parametrize(("scheduling", "minimum"), [({"gang": "Native"}, 1), ({"minAvailable": 2}, 2)])
def test_a_gang_that_is_requested_has_its_minimum_and_its_replicas_are_preempted_one_by_one(
    scheduling: dict[str, Any], minimum: int
) -> None:
    story = Lifecycle(**SPEC, scheduling=scheduling)
    [group] = [
        o for o in story.reconcile(served_systems=frozenset({GangSystem.NATIVE})).objects if "Group" in o["kind"]
    ]
    assert group["spec"] == {"schedulingPolicy": {"gang": {"minCount": minimum}}}


# -- validation


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"training": manifest()["spec"]["training"]}, "spec.training.program"),
        ({"checkpoint": {"directory": "/ckpt", "volume": {"emptyDir": {}}}}, "spec.strategy"),
        ({"evaluator": {}}, "spec.strategy"),
        ({"ps": {}}, "spec.ps"),
    ],
)
def test_what_needs_a_common_model_is_rejected(spec: dict[str, Any], path: str) -> None:
    with pytest.raises(ValidationFailed) as error:
        parse(manifest(**{**SPEC, **spec}))
    assert path in [problem.path for problem in error.value.problems]


def test_an_ordinary_job_is_valid_without_warnings() -> None:
    assert warnings(parse(manifest(**SPEC)), INSTALLATION.pod_defaults) == []
