"""The controller's role is exact: a life of jobs that touches every feature uses each right, and lacks none."""

import pathlib

import pytest
import yaml
from support import scripted_sweep
from support.api import JOBS, PODS, Api
from support.controller import ROOT, SYSTEM, Controller
from support.controller import controller as run_controller
from support.factories import manifest
from support.polling import wait_for

pytestmark = pytest.mark.integration

Right = tuple[str, str]
"""Resource and verb."""

VERBS = {
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
    "DELETECOLLECTION": "deletecollection",
    "GET": "get",
    "LIST": "list",
    "WATCH": "watch",
}
FOR_OTHER_SERVERS = {("pods", "list"), ("podgroups", "list"), ("tfdistjobs", "list"), ("tfdistsweeps", "list")}
"""A server that cannot stream lists is asked for pages."""
FOR_SLOW_PODS = {("events", "list")}
"""The events of a pod are read after half a minute in `ContainerCreating` (`tests/unit/test_unexplained_pod.py`)."""
FOR_KUEUE = {
    *(("workloads", verb) for verb in ("create", "delete", "list", "patch", "watch")),
    ("workloads/status", "patch"),
    *(("resourceflavors", verb) for verb in ("list", "watch")),
    ("localqueues/pendingworkloads", "get"),
    ("workloadpriorityclasses", "list"),
    ("priorityclasses", "list"),
}
"""`tests/integration/test_kueue.py` runs the controller with the same role and with Kueue."""
DISCOVERY = {("discovery", "get"), ("openapi", "get")}
"""Every account may read it, by the cluster's own role `system:discovery`."""


def granted() -> set[Right]:
    """Return every right of the roles that are shipped."""
    roles = yaml.safe_load_all((ROOT / "operator/manifests/role.yaml").read_text())
    rules = [rule for role in roles for rule in role["rules"]]
    return {(resource, verb) for rule in rules for resource in rule["resources"] for verb in rule["verbs"]}


def used(controller: Controller) -> set[Right]:
    """Return every right that the controller has asked for, of whatever answer."""
    return {(resource, VERBS[verb]) for verb, resource, _ in controller.api_requests()}


def new_job(api: Api, namespace: str, name: str, **spec: object) -> None:
    document = manifest(name, namespace, **spec)
    del document["metadata"]["uid"]
    api.create_job(document)


def await_phase(api: Api, namespace: str, name: str, phase: str) -> None:
    wait_for(f"{name} to be {phase}", lambda: api.job(namespace, name).get("status", {}).get("phase") == phase)


def live_through_a_success(api: Api, namespace: str) -> None:
    """A job with a TensorBoard succeeds, all is cleaned up, and it is deleted when its time is over."""
    policy = {"cleanPodPolicy": "All", "ttlSecondsAfterFinished": 20}
    board = {"logDirectory": "/logs", "ttlSecondsAfterFinished": 0}
    new_job(api, namespace, "success", runPolicy=policy, tensorBoard=board)
    await_phase(api, namespace, "success", "Running")
    for index in range(2):
        api.end_container(namespace, f"success-worker-{index}", 0)
    await_phase(api, namespace, "success", "Succeeded")
    path = f"{JOBS.format(ns=namespace)}/success"
    wait_for("the job to be deleted", lambda: api.send("GET", path).status_code == 404)


def live_through_a_replacement(api: Api, namespace: str) -> None:
    """A worker of a parameter server job fails and is replaced alone."""
    one = {"replicas": 1}
    roles = {"chief": one, "worker": {"replicas": 2}, "ps": one}
    new_job(api, namespace, "replaced", strategy="ParameterServer", **roles)
    await_phase(api, namespace, "replaced", "Running")
    api.end_container(namespace, "replaced-worker-1", 137)
    names = {"replaced-worker-1-r1"}
    wait_for("the replacement", lambda: names <= {pod["metadata"]["name"] for pod in api.pods(namespace)})
    await_phase(api, namespace, "replaced", "Running")


def live_through_a_restart(api: Api, namespace: str) -> None:
    """A gang that another process has made restarts: its Service and NetworkPolicy are there and are changed."""
    api.end_container(namespace, "taken-over-worker-1", 137)
    names = {"taken-over-worker-0-r1", "taken-over-worker-1-r1"}
    wait_for("the next attempt", lambda: names <= {pod["metadata"]["name"] for pod in api.pods(namespace)})


def live_through_an_adoption(api: Api, namespace: str) -> None:
    """A pod that has lost its owner, as by a restore from a backup, is taken in again."""
    path = f"{PODS.format(ns=namespace)}/replaced-chief-0"
    api.do("PATCH", path, {"metadata": {"ownerReferences": None}}, "merge-patch")
    wait_for("the pod to have an owner", lambda: api.do("GET", path)["metadata"].get("ownerReferences"))


def live_through_edits(api: Api, namespace: str) -> None:
    """A user changes objects of a job by hand, which is undone."""
    edits = {
        "/apis/networking.k8s.io/v1/namespaces/{ns}/networkpolicies/taken-over": {"ingress": []},
        "/apis/apps/v1/namespaces/{ns}/deployments/taken-over-tensorboard": {"replicas": 0},
    }
    for path, edit in edits.items():
        edited = api.do("PATCH", path.format(ns=namespace), {"spec": edit}, "merge-patch")["metadata"]["generation"]

        def changed_back(path: str = path, edited: int = edited) -> bool:
            return bool(api.do("GET", path.format(ns=namespace))["metadata"]["generation"] > edited)

        wait_for(f"{path} to be changed back", changed_back)


def live_through_another_gang_size(api: Api, namespace: str) -> None:
    """A user changes how many replicas of a running gang are enough."""
    path = f"{JOBS.format(ns=namespace)}/replaced"
    api.do("PATCH", path, {"spec": {"scheduling": {"minAvailable": 2}}}, "merge-patch")
    group = f"/apis/scheduling.k8s.io/v1beta1/namespaces/{namespace}/podgroups/replaced-training"
    policy = {"gang": {"minCount": 2}}
    wait_for("the PodGroup to change", lambda: api.do("GET", group)["spec"]["schedulingPolicy"] == policy)


def live_through_a_sweep(api: Api, namespace: str) -> None:
    """A sweep begins, is suspended, and is deleted with its jobs when its time is over."""
    scripted_sweep.create(api, namespace, search={"trials": 1}, activeDeadlineSeconds=3600)
    scripted_sweep.await_trials(api, namespace, "Running", 0)
    scripted_sweep.change(api, namespace, suspend=True)
    scripted_sweep.await_trials(api, namespace, "Suspended", 0)
    scripted_sweep.change(api, namespace, suspend=False, targetValue=0.5, ttlSecondsAfterFinished=0)
    scripted_sweep.await_trials(api, namespace, "Running", 0)
    scripted_sweep.end(api, namespace, 0, 0.5, attempt=1)
    path = f"{scripted_sweep.SWEEPS.format(ns=namespace)}/{scripted_sweep.NAME}"
    wait_for("the sweep to be deleted", lambda: api.send("GET", path).status_code == 404)


def an_end_before_the_start(api: Api, namespace: str) -> None:
    """A job has ended when the controller starts, which asks whether anything of it is left."""
    new_job(api, namespace, "before")
    ended = {"type": "Succeeded", "status": "True", "reason": "Succeeded", "message": "", "observedGeneration": 1}
    status = {"conditions": [ended | {"lastTransitionTime": "2030-01-01T00:00:00Z"}]}
    api.do("PATCH", f"{JOBS.format(ns=namespace)}/before/status", {"status": status}, "merge-patch")


def test_every_right_is_used_and_none_is_missing(api: Api, namespace: str, tmp_path: pathlib.Path) -> None:
    api.send("DELETE", f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases/tfdist-controller")
    settings = {"TFDIST_NAMESPACE": namespace, "TFDIST_LEADER_ELECTION": "true"}
    an_end_before_the_start(api, namespace)
    with run_controller(api, tmp_path, TFDIST_NAMESPACE=namespace):
        new_job(api, namespace, "taken-over", tensorBoard={"logDirectory": "/logs"})
        await_phase(api, namespace, "taken-over", "Running")
    with run_controller(api, tmp_path, **settings) as running:
        wait_for("it to lead", running.leads)
        live_through_a_replacement(api, namespace)
        live_through_an_adoption(api, namespace)
        live_through_edits(api, namespace)
        live_through_another_gang_size(api, namespace)
        live_through_a_restart(api, namespace)
        live_through_a_sweep(api, namespace)
        live_through_a_success(api, namespace)
        wait_for("a renewal of the Lease", lambda: ("leases", "update") in used(running))
        rejected = {key for key in running.api_requests() if key[2] in {"401", "403"}}
        assert not rejected
        assert (used(running) - DISCOVERY) | FOR_OTHER_SERVERS | FOR_SLOW_PODS | FOR_KUEUE == granted()
