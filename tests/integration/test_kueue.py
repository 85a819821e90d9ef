"""Jobs in queues of Kueue, for real: quota, preemption, stopped queues, and what is missing."""

import pytest
from support.api import Api, Json
from support.factories import termination_message
from support.gangs import NAMES as GANGS
from support.gangs import SIZE
from support.places import finish, phase, pods_of
from support.polling import wait_for
from support.queued_jobs import QUEUE, await_message, await_phase, conditions, patch_job, set_stop_policy, submit
from support.schedulers import kueue

from tfdist.render import names

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.usefixtures("kueue", "controller")]

WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


INDEPENDENT: Json = {
    "strategy": "Independent",
    "training": {"script": "/code/search.py"},
    "successPolicy": "AllWorkers",
}
EVALUATED_LATER: Json = {
    "chief": {"replicas": 1},
    "worker": {"replicas": SIZE - 1},
    "checkpoint": {"directory": "gs://bucket/checkpoints", "everySteps": 10},
    "evaluation": {"mode": "AfterTraining", "replicas": 1},
}
RESULT = {
    "step": 10,
    "checkpoint": "/c/10",
    "metrics": {"accuracy": 0.9},
    "examples": 10,
    "time": "2030-01-01T00:00:00Z",
}
URGENT = 1000
"""Value of the PriorityClass of the fixture `urgent`."""


def running(api: Api, namespace: str, name: str) -> list[str]:
    """Return the names of the pods of a job that run."""
    return [p["metadata"]["name"] for p in pods_of(api, namespace, name) if p["status"]["phase"] == "Running"]


def workloads(api: Api, namespace: str) -> dict[str, Json]:
    """Return the Workloads by the name of their job."""
    found = api.do("GET", kueue.WORKLOADS.format(ns=namespace))["items"]
    return {each["metadata"]["labels"]["tfdist.dev/job"]: each for each in found}


def is_finished(workload: Json) -> bool:
    return conditions(workload).get("Finished") == "True"


def test_of_ten_gangs_of_which_three_fit_no_other_has_a_pod_and_all_succeed(api: Api, namespace: str) -> None:
    # given
    kueue.create_queue(api, namespace, QUEUE, cpu=10)
    for name in GANGS:
        submit(api, namespace, name)
    # when three run, the others wait with the message of Kueue
    wait_for("three gangs", lambda: [phase(api, namespace, name) for name in GANGS].count("Running") == 3)
    waiting = next(name for name in GANGS if phase(api, namespace, name) != "Running")
    await_message(api, namespace, waiting, "insufficient unused quota for cpu")
    status = api.job(namespace, waiting)["status"]["scheduling"]
    assert (status["system"], status["queue"]) == ("Kueue", QUEUE)
    assert 1 <= status["position"] <= 7

    # then all succeed, one after another, and never have more pods than the quota allows
    def check() -> None:
        live = [p for p in api.pods(namespace) if p["status"].get("phase") in {"Pending", "Running"}]
        assert len(live) <= 10

    finish(api, namespace, GANGS, check=check)
    # and each has had one Workload, which is finished
    wait_for("all Workloads to be finished", lambda: all(map(is_finished, workloads(api, namespace).values())))
    assert workloads(api, namespace).keys() == set(GANGS)


def test_a_job_that_a_more_urgent_one_preempts_stops_and_goes_on_in_the_same_workload(
    api: Api, namespace: str, urgent: str
) -> None:
    # given
    kueue.create_queue(api, namespace, QUEUE, cpu=4)
    submit(api, namespace, "patient")
    await_phase(api, namespace, "patient", "Running")
    before = workloads(api, namespace)["patient"]["metadata"]["uid"]
    # when
    submit(api, namespace, "urgent", scheduling={"queue": QUEUE, "priorityClassName": urgent})
    await_phase(api, namespace, "urgent", "Running")
    # then
    await_message(api, namespace, "patient", f"queue {QUEUE}")
    assert not [p for p in pods_of(api, namespace, "patient") if p["status"]["phase"] == "Running"]
    # when the urgent one has ended
    finish(api, namespace, ["urgent"])
    # then
    await_phase(api, namespace, "patient", "Running")
    status = api.job(namespace, "patient")["status"]
    assert (status["attempt"], status["restarts"]["counted"], status["restarts"]["uncounted"]) == (1, 0, 0)
    assert workloads(api, namespace)["patient"]["metadata"]["uid"] == before


def test_a_gang_keeps_its_quota_while_it_restarts(api: Api, namespace: str) -> None:
    # given a queue that has room for one gang, and two of them
    kueue.create_queue(api, namespace, QUEUE, cpu=SIZE)
    submit(api, namespace, "first")
    await_phase(api, namespace, "first", "Running")
    submit(api, namespace, "second")
    await_message(api, namespace, "second", "insufficient unused quota")
    # when a replica of the first fails
    api.end_container(namespace, pods_of(api, namespace, "first")[0]["metadata"]["name"], 137)
    wait_for("the next attempt", lambda: api.job(namespace, "first")["status"]["attempt"] == 1)
    await_phase(api, namespace, "first", "Running")
    # then
    assert phase(api, namespace, "second") == "Queued"
    assert not pods_of(api, namespace, "second")


def test_a_queue_that_does_not_exist_is_named_and_the_job_starts_when_it_is_created(api: Api, namespace: str) -> None:
    submit(api, namespace, "early")
    await_message(api, namespace, "early", f"LocalQueue {QUEUE} doesn't exist")
    kueue.create_queue(api, namespace, QUEUE, cpu=SIZE)
    await_phase(api, namespace, "early", "Running")


def test_a_stopped_queue_drains_its_jobs_which_go_on_when_it_is_started(api: Api, namespace: str) -> None:
    # given
    kueue.create_queue(api, namespace, QUEUE, cpu=SIZE)
    submit(api, namespace, "drained")
    await_phase(api, namespace, "drained", "Running")
    # when
    set_stop_policy(api, namespace, "HoldAndDrain")
    # then
    await_message(api, namespace, "drained", "ClusterQueue")
    wait_for("no pod", lambda: not pods_of(api, namespace, "drained"))
    # when
    set_stop_policy(api, namespace, "None")
    # then
    await_phase(api, namespace, "drained", "Running")


def test_a_priority_class_that_does_not_exist_is_named(api: Api, namespace: str, urgent: str) -> None:
    kueue.create_queue(api, namespace, QUEUE, cpu=SIZE)
    submit(api, namespace, "classless", labels={"kueue.x-k8s.io/priority-class": f"not-{urgent}"})
    await_message(api, namespace, "classless", f"priority class not-{urgent} (workloadpriorityclasses) does not exist")


def test_a_webhook_of_kueue_that_does_not_answer_is_named_and_the_job_starts_when_it_does(
    api: Api, namespace: str
) -> None:
    # given
    kueue.create_queue(api, namespace, QUEUE, cpu=SIZE)
    rule = {"apiGroups": [kueue.GROUP], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["workloads"]}
    selector = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    webhook: Json = {"name": "dead.example.com", "rules": [rule], "namespaceSelector": selector}
    webhook |= {
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
    api.do("POST", WEBHOOKS, kind | {"metadata": {"name": namespace}, "webhooks": [webhook]})
    try:
        # when
        submit(api, namespace, "patient")
        # then
        await_message(api, namespace, "patient", "dead.example.com")
    finally:
        api.do("DELETE", f"{WEBHOOKS}/{namespace}")
    await_phase(api, namespace, "patient", "Running")


def test_a_suspended_job_releases_its_quota_and_a_resumed_one_waits_for_it_again(api: Api, namespace: str) -> None:
    # given
    kueue.create_queue(api, namespace, QUEUE, cpu=SIZE)
    submit(api, namespace, "first")
    await_phase(api, namespace, "first", "Running")
    submit(api, namespace, "second")
    # when
    patch_job(api, namespace, "first", {"spec": {"runPolicy": {"suspend": True}}})
    # then
    await_phase(api, namespace, "second", "Running")
    assert phase(api, namespace, "first") == "Suspended"
    # when
    patch_job(api, namespace, "first", {"spec": {"runPolicy": {"suspend": False}}})
    await_message(api, namespace, "first", "insufficient unused quota")
    finish(api, namespace, ["second"])
    await_phase(api, namespace, "first", "Running")


def test_a_job_that_waits_may_change_and_keeps_its_workload(api: Api, namespace: str) -> None:
    # given a job that is too large for the quota
    kueue.create_queue(api, namespace, QUEUE, cpu=SIZE - 1)
    submit(api, namespace, "large")
    await_message(api, namespace, "large", "insufficient")
    before = workloads(api, namespace)["large"]["metadata"]["uid"]
    # when
    patch_job(api, namespace, "large", {"spec": {"worker": {"replicas": 2}}})
    # then
    await_phase(api, namespace, "large", "Running")
    assert workloads(api, namespace)["large"]["metadata"]["uid"] == before


def test_a_job_that_runs_on_borrowed_quota_gives_it_back(api: Api, namespace: str) -> None:
    # given two teams of which each has quota for one gang, and one of them runs two
    for name in (QUEUE, "team-b"):
        kueue.create_queue(api, namespace, name, cpu=SIZE, cohort="all")
    both = {"first", "second"}
    for name in sorted(both):
        submit(api, namespace, name)
        await_phase(api, namespace, name, "Running")
    # when the other team needs its quota
    submit(api, namespace, "owner", scheduling={"queue": "team-b"})
    # then one of the two waits again: the last one, or either if both were admitted within a second
    await_phase(api, namespace, "owner", "Running")
    evicted = wait_for("one to wait", lambda: [n for n in sorted(both) if phase(api, namespace, n) == "Queued"])
    await_message(api, namespace, evicted[0], f"queue {QUEUE}")
    (kept,) = both - {*evicted}
    assert phase(api, namespace, kept) == "Running"
    # when that has ended
    finish(api, namespace, ["owner"])
    # then
    await_phase(api, namespace, evicted[0], "Running")


def test_a_replica_that_has_ended_for_good_gives_its_quota_to_the_next_job(api: Api, namespace: str) -> None:
    # given an independent job that has the whole quota, and one that waits
    kueue.create_queue(api, namespace, QUEUE, cpu=SIZE)
    submit(api, namespace, "search", **INDEPENDENT)
    await_phase(api, namespace, "search", "Running")
    submit(api, namespace, "next", worker={"replicas": 1})
    await_message(api, namespace, "next", "insufficient unused quota")
    # when a replica completes
    api.end_container(namespace, "search-worker-1", 0)
    # then
    await_phase(api, namespace, "next", "Running")
    assert phase(api, namespace, "search") == "Running"
    # when its user restarts all replicas, then it waits for the quota of all
    patch_job(
        api, namespace, "search", {"metadata": {"annotations": {names.RESTART_ANNOTATION: "2026-01-01T00:00:00Z"}}}
    )
    await_message(api, namespace, "search", "insufficient unused quota")
    assert not running(api, namespace, "search")
    finish(api, namespace, ["next"])
    await_phase(api, namespace, "search", "Running")
    finish(api, namespace, ["search"])


def test_an_evaluation_after_training_keeps_only_its_own_quota_also_when_it_is_evicted(
    api: Api, namespace: str
) -> None:
    # given training that has succeeded, and its evaluation, which needs no chief
    kueue.create_queue(api, namespace, QUEUE, cpu=SIZE)
    submit(api, namespace, "fashion", **EVALUATED_LATER)
    await_phase(api, namespace, "fashion", "Running")
    for replica in ("worker-0", "worker-1", "chief-0"):
        api.end_container(namespace, f"fashion-{replica}", 0, termination_message(step=10))
    wait_for("the evaluation", lambda: running(api, namespace, "fashion"))
    # when another job needs the quota of the other two
    submit(api, namespace, "next", worker={"replicas": SIZE - 1})
    # then
    await_phase(api, namespace, "next", "Running")
    # when the evaluation is evicted
    set_stop_policy(api, namespace, "HoldAndDrain")
    for name in ("fashion", "next"):
        await_phase(api, namespace, name, "Queued")
    set_stop_policy(api, namespace, "None")
    # then both are admitted again side by side, with a pod set of no pods
    await_phase(api, namespace, "next", "Running")
    (evaluation,) = wait_for("the evaluation to go on", lambda: running(api, namespace, "fashion"))
    api.end_container(namespace, evaluation, 0, termination_message(step=10, evaluation=RESULT))
    await_phase(api, namespace, "fashion", "Succeeded")
    finish(api, namespace, ["next"])


def test_a_waiting_job_that_becomes_more_urgent_is_admitted_first(api: Api, namespace: str, urgent: str) -> None:
    # given two jobs that wait for a third
    kueue.create_queue(api, namespace, QUEUE, cpu=SIZE)
    submit(api, namespace, "first")
    await_phase(api, namespace, "first", "Running")
    for name in ("second", "third"):
        submit(api, namespace, name)
        await_message(api, namespace, name, "insufficient unused quota")
    before = workloads(api, namespace)["third"]["metadata"]["uid"]
    # when the last one becomes more urgent than the one that runs
    patch_job(api, namespace, "third", {"spec": {"scheduling": {"priorityClassName": urgent}}})
    # then it preempts it, by the same Workload
    await_phase(api, namespace, "third", "Running")
    assert workloads(api, namespace)["third"]["metadata"]["uid"] == before
    finish(api, namespace, ["first", "second", "third"])


def test_a_running_job_that_becomes_as_urgent_as_the_next_one_is_not_preempted(
    api: Api, namespace: str, urgent: str
) -> None:
    # given
    kueue.create_queue(api, namespace, QUEUE, cpu=SIZE)
    submit(api, namespace, "first")
    await_phase(api, namespace, "first", "Running")
    pods = {pod["metadata"]["uid"] for pod in pods_of(api, namespace, "first")}
    # when
    patch_job(api, namespace, "first", {"spec": {"scheduling": {"priorityClassName": urgent}}})
    wait_for("the priority", lambda: workloads(api, namespace)["first"]["spec"]["priority"] == URGENT)
    submit(api, namespace, "next", scheduling={"queue": QUEUE, "priorityClassName": urgent})
    # then
    await_message(api, namespace, "next", "insufficient unused quota")
    assert {pod["metadata"]["uid"] for pod in pods_of(api, namespace, "first")} == pods
