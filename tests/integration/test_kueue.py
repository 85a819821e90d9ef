"""Jobs in queues of Kueue, for real: quota, preemption, stopped queues, and what is missing."""

import pytest
from support.api import JOBS, Api, Json
from support.factories import manifest
from support.gangs import NAMES as GANGS
from support.gangs import SIZE
from support.places import finish, phase, pods_of
from support.polling import wait_for
from support.schedulers import kueue

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.usefixtures("kueue", "controller")]

WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
QUEUE = "team-a"


def submit(api: Api, namespace: str, name: str, **scheduling: object) -> None:
    spec: Json = {"worker": {"replicas": SIZE}, "resources": {"requests": {"cpu": "1"}}}
    made = manifest(name, namespace, scheduling={"queue": QUEUE} | scheduling, **spec)
    del made["metadata"]["uid"]
    api.create_job(made)


def await_phase(api: Api, namespace: str, name: str, wanted: str) -> None:
    wait_for(f"{name} to be {wanted}", lambda: phase(api, namespace, name) == wanted)


def await_message(api: Api, namespace: str, name: str, text: str) -> None:
    """Wait until the job waits in its queue with a text."""

    def found() -> bool:
        status = api.job(namespace, name).get("status", {})
        return status.get("phase") == "Queued" and text in status["summary"].get("message", "")

    wait_for(f"{name} to wait: {text}", found, context=lambda: str(api.job(namespace, name).get("status")))


def workloads(api: Api, namespace: str) -> dict[str, Json]:
    """Return the Workloads by the name of their job."""
    found = api.do("GET", kueue.WORKLOADS.format(ns=namespace))["items"]
    return {each["metadata"]["labels"]["tfdist.dev/job"]: each for each in found}


def is_finished(workload: Json) -> bool:
    conditions = workload["status"].get("conditions", ())
    return any(c["type"] == "Finished" and c["status"] == "True" for c in conditions)


def set_suspend(api: Api, namespace: str, name: str, suspend: bool) -> None:
    path = f"{JOBS.format(ns=namespace)}/{name}"
    api.do("PATCH", path, {"spec": {"runPolicy": {"suspend": suspend}}}, "merge-patch")


def set_stop_policy(api: Api, namespace: str, policy: str) -> None:
    path = f"{kueue.API}/clusterqueues/{namespace}-{QUEUE}"
    api.do("PATCH", path, {"spec": {"stopPolicy": policy}}, "merge-patch")


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
    submit(api, namespace, "urgent", priorityClassName=urgent)
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
    made = manifest("classless", namespace, scheduling={"queue": QUEUE})
    made["metadata"] |= {"labels": {"kueue.x-k8s.io/priority-class": f"not-{urgent}"}}
    del made["metadata"]["uid"]
    api.create_job(made)
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
    set_suspend(api, namespace, "first", True)
    # then
    await_phase(api, namespace, "second", "Running")
    assert phase(api, namespace, "first") == "Suspended"
    # when
    set_suspend(api, namespace, "first", False)
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
    api.do("PATCH", f"{JOBS.format(ns=namespace)}/large", {"spec": {"worker": {"replicas": 2}}}, "merge-patch")
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
    submit(api, namespace, "owner", queue="team-b")
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
