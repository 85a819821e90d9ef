"""Gangs of Volcano and of scheduler-plugins: the choice of the scheduler, PodGroups, and the pods that name them."""

from typing import Any

import pytest
from support.factories import CHECKPOINT, INSTALLATION, NOW, Lifecycle, condition, created, manifest, pod, view
from support.owned_model import group_of
from support.statuses import status_of

from tfdist.api.gang_system import Availability, GangSystem
from tfdist.desired.objects import ObjectName, objects
from tfdist.desired.owned_kinds import POD_GROUPS, kind_of
from tfdist.observed.gang_record import stored_record
from tfdist.planner import Plan, plan
from tfdist.render import names
from tfdist.render.fingerprint import fingerprint
from tfdist.render.gang import GangName
from tfdist.render.installation import Installation
from tfdist.timestamps import rfc3339
from tfdist.validation import ValidationFailed, parse

VOLCANO, COSCHEDULING, NATIVE = GangSystem.VOLCANO, GangSystem.COSCHEDULING, GangSystem.NATIVE
ALL: dict[str, Any] = {"served_systems": frozenset(POD_GROUPS)}
PS: dict[str, Any] = {"strategy": "ParameterServer", "chief": {}, "ps": {"replicas": 1}, "command": ["run"]}
BOTH = "worker-0:R worker-1:R"
MISSING = {
    VOLCANO: "no podgroups.scheduling.volcano.sh; install Volcano",
    COSCHEDULING: "no podgroups.scheduling.x-k8s.io; install scheduler-plugins",
    GangSystem.KAI: "no podgroups.scheduling.run.ai; install KAI Scheduler",
    NATIVE: "enable its feature gate GenericWorkload",
}


def only(system: GangSystem) -> dict[str, Any]:
    return {"served_systems": frozenset({system})}


def named(name: str) -> dict[str, Any]:
    """Return a specification whose pods name a scheduler."""
    return {"template": {"spec": {"schedulerName": name}}}


def groups(todo: Plan) -> dict[str, dict[str, Any]]:
    """Return the specifications of the PodGroups of a plan, by system and name."""
    systems = {kind: system for system, kind in POD_GROUPS.items()}
    found = {kind_of(made): made for made in todo.objects if made["kind"] == "PodGroup"}
    return {f"{systems[kind]} {made['metadata']['name']}": made["spec"] for kind, made in found.items()}


def members(todo: Plan, system: GangSystem) -> dict[str, str | None]:
    """Return the PodGroup of each pod that a plan creates."""
    return {made["metadata"]["name"].removeprefix("fashion-"): group_of(made, system) for made in todo.creates}


def retries_of(todo: Plan) -> str | None:
    """Return how often the scheduler of the only PodGroup of a plan is to consider it again."""
    (group,) = [made for made in todo.objects if made["kind"] == "PodGroup"]
    label: str | None = group["metadata"]["labels"].get(names.RETRY_LABEL)
    return label


def schedulers(todo: Plan) -> set[str | None]:
    return {made["spec"].get("schedulerName") for made in todo.creates}


def test_volcano_schedules_a_gang_in_its_queue() -> None:
    # when
    scheduling = {"gang": "Volcano", "queue": "team-a", "priorityClassName": "batch"}
    job = Lifecycle(scheduling=scheduling)
    todo = job.reconcile(**only(VOLCANO))
    # then
    assert groups(todo) == {
        "Volcano fashion-training": {"minMember": 2, "queue": "team-a", "priorityClassName": "batch"}
    }
    assert members(todo, VOLCANO) == dict.fromkeys(("worker-0", "worker-1"), "fashion-training")
    assert schedulers(todo) == {"volcano"}
    assert job.status["scheduling"] == {"system": "Volcano", "queue": "team-a"}


def test_scheduler_plugins_schedule_a_gang_within_the_timeout() -> None:
    # when
    scheduling = {"gang": "Coscheduling", "timeoutSeconds": 60, "minAvailable": 3}
    todo = Lifecycle(**PS, scheduling=scheduling).reconcile(**only(COSCHEDULING))
    # then
    assert groups(todo) == {"Coscheduling fashion-training": {"minMember": 3, "scheduleTimeoutSeconds": 60}}
    assert set(members(todo, COSCHEDULING).values()) == {"fashion-training"}
    assert schedulers(todo) == {"scheduler-plugins-scheduler"}


def test_scheduler_plugins_consider_a_gang_again_and_again_while_it_waits() -> None:
    # given
    job = Lifecycle(scheduling={"gang": "Coscheduling", "timeoutSeconds": 60})
    job.reconcile(**only(COSCHEDULING))
    waiting = [pod(f"worker-{i}", "P", node="", created_at=rfc3339(NOW)) for i in range(2)]
    retries, delays = [], []
    # when
    for after in (0, 41, 1, 45):
        todo = job.reconcile(waiting, after, **only(COSCHEDULING))
        retries.append(retries_of(todo))
        delays.append(todo.requeue_after_seconds)
    # then
    assert retries == [None, None, "1", "2"]
    assert all(delay is not None and delay <= 42 for delay in delays)
    # when it has its nodes
    assert retries_of(job.reconcile(BOTH, **only(COSCHEDULING))) is None


def test_other_schedulers_consider_a_gang_again_by_themselves() -> None:
    job = Lifecycle(scheduling={"gang": "Volcano"})
    job.reconcile(**only(VOLCANO))
    waiting = [pod(f"worker-{i}", "P", node="", created_at=rfc3339(NOW)) for i in range(2)]
    assert retries_of(job.reconcile(waiting, 600, **only(VOLCANO))) is None


def test_the_profile_of_scheduler_plugins_is_that_of_the_template_or_of_the_installation() -> None:
    # given
    scheduling = {"gang": "Coscheduling"}
    installation = Installation(INSTALLATION.default_image, pod_defaults=named("plugins")["template"])
    # when
    of_template = Lifecycle(scheduling=scheduling, **named("mine")).reconcile(**ALL)
    of_installation = plan(view(spec={"scheduling": scheduling}, **ALL), NOW, installation)
    # then
    assert schedulers(of_template) == {"mine"}
    assert schedulers(of_installation) == {"plugins"}


@pytest.mark.parametrize(
    ("spec", "served", "system"),
    [
        pytest.param({"scheduling": {"queue": "a"}}, ALL, "Volcano", id="a queue"),
        pytest.param(named("volcano"), ALL, "Volcano", id="pods of Volcano"),
        pytest.param(named("volcano"), only(NATIVE), "None", id="pods of Volcano, which is not there"),
        pytest.param(named("mine"), ALL, "None", id="pods of an unknown scheduler"),
        pytest.param({}, ALL, "Native", id="pods of the default scheduler"),
        pytest.param({}, only(VOLCANO), "None", id="pods of the default scheduler, without its gangs"),
        pytest.param({}, only(COSCHEDULING), "None", id="scheduler-plugins is requested by name only"),
        pytest.param(
            {"template": {"spec": {}, "metadata": {"labels": {"scheduling.x-k8s.io/pod-group": "mine"}}}},
            ALL,
            "None",
            id="a PodGroup of the user's by its label",
        ),
        pytest.param(
            {
                "template": {
                    "metadata": {"annotations": {"scheduling.k8s.io/group-name": "mine"}},
                    **named("volcano")["template"],
                }
            },
            ALL,
            "None",
            id="a PodGroup of the user's by its annotation",
        ),
    ],
)
def test_auto_chooses_by_the_queue_and_the_scheduler_of_the_pods(
    spec: dict[str, Any], served: dict[str, Any], system: str
) -> None:
    job = Lifecycle(**spec)
    todo = job.reconcile(**served)
    assert job.status["scheduling"]["system"] == system
    assert [name.split()[0] for name in groups(todo)] == ([] if system == "None" else [system])


@pytest.mark.parametrize("system", POD_GROUPS)
def test_a_gang_waits_for_the_scheduler_that_the_job_requests(system: GangSystem) -> None:
    # given
    job = Lifecycle(scheduling={"gang": str(system)})
    # when it is not there
    assert not created(job.reconcile())
    # then
    assert job.condition_status("PodsReady") == ("False", "GangSchedulerMissing")
    assert MISSING[system] in condition(job.status, "PodsReady")["message"]
    # when it is
    assert set(members(job.reconcile(**only(system)), system).values()) == {"fashion-training"}


def test_a_job_in_a_queue_waits_for_volcano_and_does_not_start_outside_of_it() -> None:
    job = Lifecycle(scheduling={"queue": "team-a"})
    assert not created(job.reconcile(**only(NATIVE)))
    assert "scheduling.queue: team-a: the API server serves neither" in job.message("PodsReady")
    assert job.message("PodsReady").endswith("install Kueue or Volcano, or remove queue")


def test_a_job_in_a_queue_waits_to_know_whether_volcano_is_there() -> None:
    # given
    job = Lifecycle(scheduling={"queue": "team-a"}, runPolicy={"startDeadlineSeconds": 60})
    unknown: dict[str, Any] = {"systems": {VOLCANO: Availability.UNKNOWN}}
    # when
    assert [created(job.reconcile(after=after, **unknown)) for after in (0, 3600)] == [[], []]
    # then
    assert job.condition_status("PodsReady") == ("False", "GangSchedulerUnknown")
    assert members(job.reconcile(**ALL), VOLCANO) == dict.fromkeys(("worker-0", "worker-1"), "fashion-training")


@pytest.mark.parametrize("name", ["mine", "default-scheduler"])
def test_a_job_in_a_queue_whose_pods_name_another_scheduler_waits_with_the_reason(name: str) -> None:
    job = Lifecycle(scheduling={"queue": "team-a"}, **named(name))
    assert not created(job.reconcile(**ALL))
    assert f"schedulerName {name} keeps the pods out of Volcano's queues; remove one of the two" in job.message(
        "PodsReady"
    )


def test_all_pods_of_a_job_of_volcano_wait_in_its_queue() -> None:
    # given a job of one worker, and an evaluator
    spec: dict[str, Any] = {"checkpoint": CHECKPOINT, "evaluation": {"mode": "Continuous"}, "worker": {"replicas": 1}}
    job = Lifecycle(scheduling={"queue": "team-a"}, **spec)
    # when
    todo = job.reconcile(**ALL)
    # then
    assert members(todo, VOLCANO) == {"worker-0": "fashion-training", "evaluator-0": "fashion-evaluator"}
    made = {m["metadata"]["name"]: m["spec"] for m in todo.objects if m["kind"] == "PodGroup"}
    assert made.keys() == {"fashion-training", "fashion-evaluator"}
    assert all(spec == {"minMember": 1, "queue": "team-a"} for spec in made.values())
    assert job.status["scheduling"] == {"system": "Volcano", "queue": "team-a"}


def test_a_replaced_replica_belongs_to_the_scheduler_of_its_attempt() -> None:
    # given an attempt under Volcano
    job = Lifecycle(**PS, **named("volcano"))
    job.reconcile(**only(VOLCANO))
    running = "chief-0:R worker-0:R worker-1:R ps-0:R"
    job.reconcile(running, **only(VOLCANO))
    # when a worker is replaced while discovery does not find it
    job.reconcile([pod("chief-0"), pod("ps-0"), pod("worker-0"), pod("worker-1", "F")])
    todo = job.reconcile("chief-0:R ps-0:R worker-0:R", after=60)
    # then
    assert members(todo, VOLCANO) == {"worker-1-r1": "fashion-training"}


THREE: dict[str, Any] = {"worker": {"replicas": 3}, "command": ["run"], "without": ("training",)}


def minimum(todo: Plan) -> int:
    """Return how many members the scheduler must find nodes for, by the PodGroup of a plan."""
    (spec,) = groups(todo).values()
    return int(spec.get("minMember") or spec["schedulingPolicy"]["gang"]["minCount"])


@pytest.mark.parametrize("system", list(POD_GROUPS))
def test_a_replica_that_is_lost_when_the_others_have_completed_is_not_held_by_their_pod_group(
    system: GangSystem,
) -> None:
    # given a gang that runs and ends while no controller observes it
    job = Lifecycle(**THREE, scheduling={"gang": system})
    assert minimum(job.reconcile(**ALL)) == 3
    # when one pod is deleted meanwhile
    todo = job.reconcile("worker-1:S worker-2:S", **ALL)
    # then it is created again, in a PodGroup that does not wait for pods that the scheduler no longer counts
    assert members(todo, system) == {"worker-0": "fashion-training"}
    assert minimum(todo) == 1
    # when the controller sees it without a node, the minimum stays
    waiting = [pod("worker-1", "S"), pod("worker-2", "S"), pod("worker-0", "P", node="")]
    assert minimum(job.reconcile(waiting, **ALL)) == 1
    # when it runs and ends
    job.reconcile("worker-0:R worker-1:S worker-2:S", **ALL)
    job.reconcile("worker-0:S worker-1:S worker-2:S", **ALL)
    # then
    assert job.status["phase"] == "Succeeded"


@pytest.mark.parametrize("system", list(POD_GROUPS))
def test_a_worker_that_is_replaced_when_another_has_completed_is_not_held_by_their_pod_group(
    system: GangSystem,
) -> None:
    # given parameter servers, of whose workers one has completed
    job = Lifecycle(**PS, scheduling={"gang": system})
    job.reconcile(**ALL)
    job.reconcile("chief-0:R worker-0:R worker-1:R ps-0:R", **ALL)
    job.reconcile("chief-0:R worker-0:S worker-1:R ps-0:R", **ALL)
    # when the other is replaced
    todo = job.reconcile("chief-0:R worker-0:S worker-1:F ps-0:R", **ALL)
    todo = todo if todo.creates else job.reconcile("chief-0:R worker-0:S ps-0:R", after=60, **ALL)
    # then
    assert members(todo, system) == {"worker-1-r1": "fashion-training"}
    assert minimum(todo) == 3


def test_replicas_that_complete_while_all_others_have_nodes_change_no_pod_group() -> None:
    job = Lifecycle(**THREE)
    job.reconcile(**ALL)
    todo = job.reconcile("worker-0:R worker-1:S worker-2:R", **ALL)
    assert minimum(todo) == 3


def test_an_attempt_with_another_scheduler_leaves_no_pod_group_of_the_last_one() -> None:
    # given
    job = Lifecycle()
    job.reconcile(**only(NATIVE))
    job.reconcile(BOTH, **only(NATIVE))
    # when a queue is set before a restart
    job.spec = {"scheduling": {"queue": "team-a"}}
    job.reconcile("worker-0:R worker-1:F", **ALL)
    todo = job.reconcile(after=60, **ALL)
    # then
    assert list(groups(todo)) == ["Volcano fashion-training-r1"]
    assert ObjectName(POD_GROUPS[NATIVE], "fashion-training") in todo.obsolete
    assert ObjectName(POD_GROUPS[NATIVE], "fashion-training-r1") in todo.obsolete
    assert ObjectName(POD_GROUPS[VOLCANO], "fashion-training-r1") not in todo.obsolete


def test_a_record_of_a_scheduler_that_a_newer_version_knows_is_readable() -> None:
    record = stored_record(status_of({"gangs": {"training": {"system": "Other"}}}), GangName.TRAINING)
    assert record is not None
    assert record.system is GangSystem.NONE


def test_a_change_of_the_queue_changes_the_pod_group_and_restarts_no_pod() -> None:
    # given
    job = Lifecycle(scheduling={"queue": "team-a"})
    job.reconcile(**ALL)
    # when
    job.spec = {"scheduling": {"queue": "team-b"}}
    todo = job.reconcile(BOTH, generation=2, **ALL)
    # then
    assert groups(todo)["Volcano fashion-training"]["queue"] == "team-b"
    assert todo.deletes == ()
    assert fingerprint(parse(manifest(scheduling={"queue": "a"}))) == fingerprint(parse(manifest()))


def test_the_status_quotes_the_pod_that_volcano_finds_no_node_for() -> None:
    # given the reasons and messages of Volcano 1.10
    job = Lifecycle(scheduling={"gang": "Volcano"})
    job.reconcile(**ALL)
    text = "pod group is not ready, 2 Pending, 2 minAvailable; Pending: 1 Unschedulable, 1 Schedulable"
    fits = "Pod team/fashion-worker-0 can possibly be assigned to node-a"
    waiting = [
        pod("worker-0", "P", reason="Schedulable", message=fits, node=""),
        pod("worker-1", "P", reason="Unschedulable", message=text, node=""),
    ]
    # when
    job.reconcile(waiting, **ALL)
    # then
    assert job.status["scheduling"]["reason"] == text


@pytest.mark.parametrize(
    ("gang", "kind"), [("Volcano", "scheduling.volcano.sh/v1beta1"), ("Coscheduling", "scheduling.x-k8s.io/v1alpha1")]
)
def test_rendering_shows_the_pod_group_of_a_job_that_requests_it(gang: str, kind: str) -> None:
    made = objects(parse(manifest(scheduling={"gang": gang})), "tfdist/trainer:test")
    assert [each["apiVersion"] for each in made if each["kind"] == "PodGroup"] == [kind]


@pytest.mark.parametrize("level", ["job", "installation"])
def test_volcano_with_pods_of_another_scheduler_is_a_contradiction_only_in_the_job(level: str) -> None:
    scheduling = {"gang": "Volcano"}
    if level == "installation":
        parse(manifest(scheduling=scheduling), named("mine")["template"])
        return
    with pytest.raises(ValidationFailed) as caught:
        parse(manifest(scheduling=scheduling, **named("mine")))
    assert [str(p) for p in caught.value.problems] == [
        "spec.template.spec.schedulerName: mine contradicts scheduling.gang: Volcano, whose scheduler is volcano; "
        "remove schedulerName, or change gang"
    ]
