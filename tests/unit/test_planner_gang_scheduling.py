"""Gangs of Kubernetes' scheduler: one PodGroup for each start of all replicas of a gang, and pods that name it."""

from typing import Any

import pytest
from support.factories import CHECKPOINT, EVALUATED, Lifecycle, condition, created, manifest, pod

from tfdist.api.gang_system import Availability, GangSystem
from tfdist.desired.objects import objects
from tfdist.desired.owned_kinds import POD_GROUPS
from tfdist.planner import Plan
from tfdist.render.fingerprint import fingerprint
from tfdist.validation import parse

BOTH = "worker-0:R worker-1:R"
SERVED: dict[str, Any] = {"served_systems": frozenset({GangSystem.NATIVE})}
UNKNOWN: dict[str, Any] = {"systems": dict.fromkeys(POD_GROUPS, Availability.UNKNOWN)}
PS = {"strategy": "ParameterServer", "chief": {}, "ps": {"replicas": 1}, "command": ["run"]}


def groups(todo: Plan) -> list[str]:
    return [made["metadata"]["name"] for made in todo.objects if made["kind"] == "PodGroup"]


def group_of_pods(todo: Plan) -> set[str | None]:
    return {made["spec"].get("schedulingGroup", {}).get("podGroupName") for made in todo.creates}


def removed(todo: Plan) -> set[str]:
    return {name.name for name in todo.obsolete if name.kind == POD_GROUPS[GangSystem.NATIVE]}


def group_spec(todo: Plan) -> dict[str, Any]:
    (made,) = (made for made in todo.objects if made["kind"] == "PodGroup")
    spec: dict[str, Any] = made["spec"]
    return spec


def test_auto_makes_a_pod_group_of_the_whole_gang_if_the_api_server_serves_it() -> None:
    # when
    job = Lifecycle()
    todo = job.reconcile(**SERVED)
    # then
    assert groups(todo) == ["fashion-training"]
    assert group_of_pods(todo) == {"fashion-training"}
    assert group_spec(todo) == {"schedulingPolicy": {"gang": {"minCount": 2}}, "disruptionMode": {"all": {}}}
    assert job.status["scheduling"] == {"system": "Native"}
    assert job.status["gangs"]["training"]["system"] == "Native"


@pytest.mark.parametrize(
    ("spec", "served"),
    [
        pytest.param({}, False, id="the API server does not serve PodGroups"),
        pytest.param({"scheduling": {"gang": "None"}}, True, id="the job requests none"),
        pytest.param({"template": {"spec": {"schedulerName": "volcano"}}}, True, id="another scheduler"),
        pytest.param(
            {"template": {"spec": {"schedulingGroup": {"podGroupName": "mine"}}}}, True, id="a PodGroup of the user's"
        ),
    ],
)
def test_auto_makes_no_pod_group(spec: dict[str, Any], served: bool) -> None:
    job = Lifecycle(**spec)
    todo = job.reconcile(**(SERVED if served else {}))
    assert groups(todo) == []
    assert "fashion-training" not in group_of_pods(todo)
    assert job.status["scheduling"] == {"system": "None"}


def test_a_single_replica_needs_no_pod_group() -> None:
    job = Lifecycle(worker={"replicas": 1})
    assert groups(job.reconcile(**SERVED)) == []
    assert "scheduling" not in job.status


def test_native_waits_for_an_api_server_that_serves_pod_groups() -> None:
    # given
    job = Lifecycle(scheduling={"gang": "Native"})
    # when it does not
    assert not created(job.reconcile())
    # then
    assert job.condition_status("PodsReady") == ("False", "GangSchedulerMissing")
    assert "enable its feature gate GenericWorkload" in condition(job.status, "PodsReady")["message"]
    # when it does
    todo = job.reconcile(**SERVED)
    # then
    assert created(todo) == ["worker-0", "worker-1"]
    assert group_of_pods(todo) == {"fashion-training"}


def test_a_gang_that_has_started_goes_on_if_pod_groups_are_no_longer_served() -> None:
    # given
    job = Lifecycle(scheduling={"gang": "Native"})
    job.reconcile(**SERVED)
    # when the API disappears before the second pod is created
    todo = job.reconcile([pod("worker-0", "P")])
    # then
    assert created(todo) == ["worker-1"]


def test_min_available_and_the_priority_class_are_those_of_the_pod_group() -> None:
    scheduling = {"minAvailable": 3, "priorityClassName": "batch"}
    spec = group_spec(Lifecycle(**PS, scheduling=scheduling).reconcile(**SERVED))
    assert spec["schedulingPolicy"]["gang"]["minCount"] == 3
    assert spec["priorityClassName"] == "batch"
    assert "disruptionMode" not in spec, "workers of parameter servers are replaced alone"


def test_a_new_attempt_has_a_pod_group_of_its_own_and_that_of_the_last_is_removed() -> None:
    # given
    job = Lifecycle()
    job.reconcile(**SERVED)
    job.reconcile(BOTH, **SERVED)
    # when a replica fails
    job.reconcile("worker-0:R worker-1:F", **SERVED)
    todo = job.reconcile(after=60, **SERVED)
    # then
    assert groups(todo) == ["fashion-training-r1"]
    assert group_of_pods(todo) == {"fashion-training-r1"}
    assert "fashion-training" in removed(todo)
    assert "fashion-training-r1" not in removed(todo)


def test_a_replica_that_is_replaced_alone_joins_the_pod_group_of_its_gang() -> None:
    # given
    job = Lifecycle(**PS)
    job.reconcile(**SERVED)
    job.reconcile("chief-0:R worker-0:R worker-1:R ps-0:R", **SERVED)
    # when
    todo = job.reconcile([pod("chief-0"), pod("ps-0"), pod("worker-0"), pod("worker-1", "F")], **SERVED)
    todo = todo if todo.creates else job.reconcile("chief-0:R ps-0:R worker-0:R", after=60, **SERVED)
    # then
    assert created(todo) == ["worker-1-r1"]
    assert groups(todo) == ["fashion-training"]
    assert group_of_pods(todo) == {"fashion-training"}


def test_an_attempt_that_began_without_a_pod_group_goes_on_without_one() -> None:
    # given an attempt from before the API server served PodGroups
    job = Lifecycle(**PS)
    job.reconcile()
    job.reconcile("chief-0:R worker-0:R worker-1:R ps-0:R")
    # when a worker is replaced afterwards
    todo = job.reconcile([pod("chief-0"), pod("ps-0"), pod("worker-0"), pod("worker-1", "F")], **SERVED)
    todo = todo if todo.creates else job.reconcile("chief-0:R ps-0:R worker-0:R", after=60, **SERVED)
    # then it does not wait for a gang of which it would be the only member
    assert created(todo) == ["worker-1-r1"]
    assert groups(todo) == []
    assert group_of_pods(todo) == {None}


def test_no_pod_group_is_requested_while_the_api_server_no_longer_serves_them() -> None:
    job = Lifecycle()
    job.reconcile(**SERVED)
    assert groups(job.reconcile(BOTH)) == []


def test_the_evaluation_after_training_is_a_gang_of_its_own() -> None:
    # given
    job = Lifecycle(**EVALUATED)
    job.reconcile(**SERVED)
    job.reconcile(BOTH, **SERVED)
    # when
    todo = job.reconcile("worker-0:S worker-1:S", **SERVED)
    # then
    assert groups(todo) == ["fashion-evaluation"]
    assert group_of_pods(todo) == {"fashion-evaluation"}
    assert "fashion-training" in removed(todo)


def test_an_evaluator_is_scheduled_by_itself() -> None:
    todo = Lifecycle(checkpoint=CHECKPOINT, evaluation={"mode": "Continuous"}).reconcile(**SERVED)
    assert groups(todo) == ["fashion-training"]
    by_name = {made["metadata"]["name"]: made["spec"].get("schedulingGroup") for made in todo.creates}
    assert by_name["fashion-evaluator-0"] is None
    assert by_name["fashion-worker-0"] is not None


def test_the_pod_group_is_removed_when_the_job_is_suspended_or_has_ended() -> None:
    # given
    job = Lifecycle()
    job.reconcile(**SERVED)
    job.reconcile(BOTH, **SERVED)
    # when it is suspended, the group stays until its pods have ended
    job.spec = {"runPolicy": {"suspend": True}}
    assert groups(job.reconcile(BOTH, **SERVED)) == ["fashion-training"]
    # then
    assert "fashion-training" in removed(job.reconcile(**SERVED))
    # when it ends
    job.spec = {}
    job.reconcile(**SERVED)
    job.reconcile("worker-0-r1:S worker-1-r1:S", **SERVED)
    # then
    assert {"fashion-training", "fashion-training-r1"} <= removed(job.reconcile(after=60, **SERVED))


def test_the_status_quotes_the_scheduler_while_a_replica_waits_for_a_node() -> None:
    # given
    job = Lifecycle()
    job.reconcile(**SERVED)
    text = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
    waiting = [pod(f"worker-{i}", "P", reason="Unschedulable", message=text, node="") for i in (0, 1)]
    # when
    job.reconcile(waiting, **SERVED)
    # then
    assert job.status["scheduling"] == {"system": "Native", "reason": text, "since": "2030-01-02T03:00:00Z"}
    # when they have one
    job.reconcile(BOTH, **SERVED)
    # then
    assert job.status["scheduling"] == {"system": "Native"}


def test_rendering_shows_the_pod_group_of_a_job_that_requests_it() -> None:
    made = objects(parse(manifest(scheduling={"gang": "Native"})), "tfdist/trainer:test")
    assert [each["kind"] for each in made] == ["Service", "NetworkPolicy", "PodGroup", "Pod", "Pod"]
    assert all(each["spec"]["schedulingGroup"] for each in made if each["kind"] == "Pod")


@pytest.mark.parametrize("field", ["timeoutSeconds", "minAvailable"])
def test_a_change_of_a_limit_of_scheduling_restarts_no_pod(field: str) -> None:
    before, after = parse(manifest()), parse(manifest(scheduling={field: 1}))
    assert fingerprint(before) == fingerprint(after)


def test_the_pod_group_of_a_finished_job_is_removed_once_its_last_pod_has_ended() -> None:
    # given a job that has succeeded before its second replica has ended
    job = Lifecycle()
    job.reconcile(**SERVED)
    job.reconcile(BOTH, **SERVED)
    job.reconcile("worker-0:S worker-1:R", **SERVED)
    assert job.status["phase"] == "Succeeded"
    assert "fashion-training" not in removed(job.reconcile("worker-0:S worker-1:R", **SERVED))
    # when that ends, and the pods are kept
    todo = job.reconcile("worker-0:S worker-1:S", after=60, **SERVED)
    # then
    assert "fashion-training" in removed(todo)


@pytest.mark.parametrize("gang", ["Auto", "Native"])
def test_a_gang_waits_without_a_deadline_until_it_is_known_whether_its_pod_groups_are_served(gang: str) -> None:
    # given
    job = Lifecycle(scheduling={"gang": gang}, runPolicy={"startDeadlineSeconds": 60})
    # when it is unknown for an hour
    assert [created(job.reconcile(after=after, **UNKNOWN)) for after in (0, 3600)] == [[], []]
    # then
    assert job.condition_status("PodsReady") == ("False", "GangSchedulerUnknown")
    assert "whether the API server serves podgroups.scheduling.k8s.io; the gang waits" in job.message("PodsReady")
    assert "its role lacks list and watch on podgroups.scheduling.k8s.io" in job.message("PodsReady")
    assert job.status["summary"]["message"] == job.message("PodsReady")
    assert job.reconcile(**UNKNOWN).status is None, "it is written once"
    # when they are served
    todo = job.reconcile(**SERVED)
    # then the deadline begins
    assert (groups(todo), group_of_pods(todo)) == (["fashion-training"], {"fashion-training"})
    assert job.status["phase"] == "Starting"
    job.reconcile(after=61, **SERVED)
    assert job.status["phase"] == "Failed"


def test_the_deadline_of_a_gang_whose_scheduler_turns_out_to_be_missing_begins_when_that_is_known() -> None:
    job = Lifecycle(scheduling={"gang": "Native"}, runPolicy={"startDeadlineSeconds": 60})
    job.reconcile(**UNKNOWN)
    job.reconcile(after=3600)
    assert job.condition_status("PodsReady") == ("False", "GangSchedulerMissing")
    job.reconcile(after=61)
    assert job.condition_status("Failed") == ("True", "GangSchedulerMissing")


def test_a_gang_starts_without_a_pod_group_once_they_are_known_to_be_absent() -> None:
    # given
    job = Lifecycle()
    job.reconcile(**UNKNOWN)
    # when
    todo = job.reconcile()
    # then
    assert (groups(todo), group_of_pods(todo)) == ([], {None})
    assert job.status["scheduling"] == {"system": "None"}


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"worker": {"replicas": 1}}, id="a single replica"),
        pytest.param({"scheduling": {"gang": "None"}}, id="the job requests none"),
        pytest.param({"template": {"spec": {"schedulerName": "mine"}}}, id="a scheduler without PodGroups"),
    ],
)
def test_pods_without_a_pod_group_do_not_wait_to_know_whether_there_are_any(spec: dict[str, Any]) -> None:
    assert created(Lifecycle(**spec).reconcile(**UNKNOWN))


@pytest.mark.parametrize("gap", [UNKNOWN, {}], ids=["unknown", "absent"])
def test_the_pod_group_of_a_gang_that_runs_is_not_removed_while_they_are_not_served(gap: dict[str, Any]) -> None:
    job = Lifecycle()
    job.reconcile(**SERVED)
    todo = job.reconcile(BOTH, **gap)
    assert (groups(todo), "fashion-training" in removed(todo)) == ([], False)


def test_a_replica_that_is_replaced_in_a_gap_joins_the_pod_group_of_its_gang() -> None:
    # given
    job = Lifecycle(**PS)
    job.reconcile(**SERVED)
    job.reconcile("chief-0:R worker-0:R worker-1:R ps-0:R", **SERVED)
    # when
    job.reconcile([pod("chief-0"), pod("ps-0"), pod("worker-0"), pod("worker-1", "F")], **UNKNOWN)
    todo = job.reconcile("chief-0:R ps-0:R worker-0:R", after=60, **UNKNOWN)
    # then
    assert (created(todo), group_of_pods(todo)) == (["worker-1-r1"], {"fashion-training"})


def test_an_attempt_whose_back_off_ends_after_pod_groups_have_gone_needs_none() -> None:
    # given an attempt that begins with a back-off
    job = Lifecycle()
    job.reconcile(**SERVED)
    job.reconcile(BOTH, **SERVED)
    job.reconcile("worker-0:R worker-1:F", **SERVED)
    # when
    todo = job.reconcile(after=60)
    # then
    assert created(todo) == ["worker-0-r1", "worker-1-r1"]
    assert group_of_pods(todo) == {None}
    assert job.status["scheduling"] == {"system": "None"}
