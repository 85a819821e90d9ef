"""The behaviour that a TFJob's users know, case by case, of a job that was converted from a TFJob.

Cases bear the numbers of `docs/tfjob-differences.md`. Where TFDist differs on purpose, the comment in the test says
how the training operator behaves and why TFDist does not.
"""

import json
from typing import Any

import pytest
from support.factories import UID, condition, planned, stored
from support.tfjobs import IMAGE, replica, tfjob

from tfdist.api.crd import crd
from tfdist.api.v1 import TFDistJob
from tfdist.convert import CannotConvert, convert
from tfdist.render.objects import objects
from tfdist.validation import InvalidJob, parse

Json = dict[str, Any]

WORKERS_AND_PS: Json = {"Worker": replica(4), "PS": replica(2)}
CONTAINERS = "spec.tfReplicaSpecs.Worker.template.spec.containers"


def moved(types: Json | None = None, **fields: Any) -> TFDistJob:
    """Return a converted TFJob as the API server stores it."""
    manifest = convert(tfjob(types, **fields)).manifest
    manifest["metadata"]["uid"] = UID
    return parse(manifest)


def made(types: Json | None = None, domain: str = "", **fields: Any) -> tuple[Json, dict[str, Json]]:
    """Return the Service of a converted TFJob, and its pods by name."""
    service, policy, *pods = objects(moved(types, **fields), IMAGE, cluster_domain=domain)
    assert [service["kind"], policy["kind"]] == ["Service", "NetworkPolicy"]
    assert {p["kind"] for p in pods} == {"Pod"}
    return service, {p["metadata"]["name"]: p for p in pods}


def container(pod: Json, name: str = "tensorflow") -> Json:
    return next(dict(c) for c in pod["spec"]["containers"] if c["name"] == name)


def tf_config(pod: Json, name: str = "tensorflow") -> str | None:
    return next((v["value"] for v in container(pod, name).get("env", ()) if v["name"] == "TF_CONFIG"), None)


def clusters(types: Json, **fields: Any) -> dict[str, Json]:
    """Return what `TF_CONFIG` says, by pod; pods without the variable are left out."""
    _, pods = made(types, **fields)
    return {name: json.loads(text) for name, pod in pods.items() if (text := tf_config(pod))}


def refusal(given: Json) -> list[tuple[str, str]]:
    with pytest.raises(CannotConvert) as error:
        convert(given)
    return [(problem.path, problem.message) for problem in error.value.problems]


# Defaulting and validation


def test_c01_a_worker_that_says_nothing_gets_the_peers_defaults() -> None:
    job = moved({"Worker": replica()})
    assert job.spec.worker is not None
    assert job.spec.worker.replicas == 1
    assert job.spec.failure_policy is not None
    assert job.spec.failure_policy.rules[-1].action == "FailJob"
    assert job.spec.run_policy.clean_pod_policy == "None"
    assert job.spec.success_policy == "Chief"  # with no chief worker 0, which is what "" means to the peer


def test_c02_tensorflows_port_is_added_and_other_ports_are_kept() -> None:
    other = {"name": "web", "containerPort": 80}
    _, pods = made({"Worker": replica(ports=[other])})
    # it is named tfdist-port; the name tfjob-port in a TFJob becomes that one
    assert {(p["name"], p["containerPort"]) for p in container(pods["fashion-worker-0"])["ports"]} >= {
        ("tfdist-port", 2222),
        ("web", 80),
    }


def test_c03_an_explicit_clean_pod_policy_is_kept() -> None:
    assert moved(policy={"cleanPodPolicy": "All"}).spec.run_policy.clean_pod_policy == "All"


def test_c04_replica_types_may_be_spelled_in_any_case() -> None:
    assert moved({"WORKER": replica(3)}).spec.worker == moved({"Worker": replica(3)}).spec.worker


def test_c05_a_name_that_is_no_dns_label_is_refused() -> None:
    # by the validation of the new job, which also refuses names too long for its pods: the peer lets those hang
    with pytest.raises(InvalidJob, match=r"metadata\.name"):
        moved(name="00test")


def test_c06_no_containers_are_two_mistakes() -> None:
    assert [path for path, _ in refusal(tfjob({"Worker": replica(pod={"containers": []})}))] == [CONTAINERS] * 2


def test_c07_an_empty_image_is_refused() -> None:
    assert refusal(tfjob({"Worker": replica(image="")}))[0][0] == f"{CONTAINERS}[0].image"


def test_c08_no_container_named_tensorflow_is_refused() -> None:
    assert refusal(tfjob({"Worker": replica(name="main")})) == [(CONTAINERS, "one container must be named tensorflow")]


def test_c09_chief_beside_master_is_refused() -> None:
    assert "Chief and Master" in refusal(tfjob({"Chief": replica(), "Master": replica()}))[0][1]


def test_c10_a_manager_unknown_to_the_peer_is_refused_and_the_peers_own_name_is_fine() -> None:
    assert refusal(tfjob(policy={"managedBy": "other-job-controller"}))[0][0] == "spec.runPolicy.managedBy"
    # the name of the training operator is left out: no name means TFDist's own controller
    assert moved(policy={"managedBy": "kubeflow.org/training-operator"}).spec.run_policy.managed_by is None


def test_c11_the_manager_cannot_be_changed() -> None:
    # refused by the API server itself, from the CRD, without a webhook that can be down
    rules = crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["x-kubernetes-validations"]
    assert any("runPolicy.managedBy cannot change" in rule["message"] for rule in rules)


# Creation


def test_c12_one_worker_is_one_pod_and_one_service() -> None:
    service, pods = made({"Worker": replica(1)})
    assert (service["metadata"]["name"], list(pods)) == ("fashion", ["fashion-worker-0"])


def test_c13_four_workers_and_two_ps_are_six_pods() -> None:
    # and one Service for all instead of six, half the requests: a pod's host name makes its address
    service, pods = made(WORKERS_AND_PS)
    assert len(pods) == 6
    assert service["metadata"]["name"] == "fashion"


def test_c14_while_all_are_pending_nothing_is_created_and_nothing_runs() -> None:
    look = "worker-0:P worker-1:P worker-2:P worker-3:P ps-0:P ps-1:P"
    assert planned(look, job=moved(WORKERS_AND_PS)).creates == ()
    assert not [c for c in stored(look, job=moved(WORKERS_AND_PS))["conditions"] if c["type"] == "Running"]


def test_c15_when_all_run_the_job_runs() -> None:
    status = stored("worker-0:R worker-1:R worker-2:R worker-3:R ps-0:R ps-1:R", job=moved(WORKERS_AND_PS))
    assert condition(status, "Running")["status"] == "True"
    assert (status["replicas"]["worker"]["running"], status["replicas"]["ps"]["running"]) == (4, 2)
    assert status["startTime"]


def test_c16_what_is_missing_is_created() -> None:
    plan = planned("worker-0:P worker-1:P ps-0:P", job=moved(WORKERS_AND_PS))
    assert [p["metadata"]["name"] for p in plan.creates] == ["fashion-worker-2", "fashion-worker-3", "fashion-ps-1"]


def test_c17_one_running_worker_does_not_make_a_running_job() -> None:
    # to the peer it does, which hides that others wait for a place while the running ones hold theirs idle
    look = "worker-0:P worker-1:P worker-2:R ps-0:P"
    plan = planned(look, job=moved(WORKERS_AND_PS))
    assert [p["metadata"]["name"] for p in plan.creates] == ["fashion-worker-3", "fashion-ps-1"]
    assert stored(look, job=moved(WORKERS_AND_PS))["phase"] == "Starting"


def test_c18_one_worker_that_is_done_ends_nothing() -> None:
    look = "worker-0:P worker-1:P worker-2:S ps-0:P"
    plan = planned(look, job=moved(WORKERS_AND_PS))
    assert [p["metadata"]["name"] for p in plan.creates] == ["fashion-worker-3", "fashion-ps-1"]
    types = {c["type"] for c in stored(look, job=moved(WORKERS_AND_PS))["conditions"]}
    assert not types & {"Running", "Succeeded"}


def test_c19_when_all_have_succeeded_so_has_the_job() -> None:
    status = stored("worker-0:S worker-1:S worker-2:S worker-3:S ps-0:S ps-1:S", job=moved(WORKERS_AND_PS))
    assert condition(status, "Succeeded")["status"] == "True"


def test_c20_every_object_belongs_to_its_job() -> None:
    service, pods = made(WORKERS_AND_PS)
    for thing in (service, *pods.values()):
        (owner,) = thing["metadata"]["ownerReferences"]
        assert owner == {
            "apiVersion": "tfdist.dev/v1",
            "kind": "TFDistJob",
            "name": "fashion",
            "uid": UID,
            "controller": True,
            "blockOwnerDeletion": False,  # true, the peer's value, only delays deletion in the foreground
        }


def test_c21_labels_and_annotations_of_the_template_reach_the_pod() -> None:
    worker = replica(1)
    worker["template"]["metadata"] = {"labels": {"a": "b"}, "annotations": {"c": "d"}}
    meta = made({"Worker": worker})[1]["fashion-worker-0"]["metadata"]
    assert meta["labels"]["a"] == "b"
    assert meta["annotations"] == {"c": "d"}


def test_c22_the_service_is_headless_and_finds_the_pods_before_they_are_ready() -> None:
    # one a job, with TensorFlow's port alone; the peer's does not resolve pods that are not ready, for which
    # peers wait that are not ready either
    spec = made(WORKERS_AND_PS)[0]["spec"]
    assert spec["clusterIP"] == "None"
    assert spec["publishNotReadyAddresses"] is True
    assert spec["ports"] == [{"name": "tfdist-port", "port": 2222, "protocol": "TCP"}]
    labels = made(WORKERS_AND_PS)[1]["fashion-ps-1"]["metadata"]["labels"]
    assert spec["selector"].items() <= labels.items()
    assert (labels["tfdist.dev/job"], labels["tfdist.dev/role"], labels["tfdist.dev/index"]) == ("fashion", "ps", "1")


def test_c23_without_a_uid_objects_can_be_shown_but_own_nothing() -> None:
    # the peer fails here; `tfdist render` shows objects of jobs that no API server has seen, and the controller
    # only sees jobs that have a UID
    service, *_ = objects(parse(convert(tfjob()).manifest), IMAGE)
    assert service["metadata"]["ownerReferences"][0]["uid"] == ""


def test_c24_a_slash_in_the_name_is_refused() -> None:
    # the peer replaces it in labels and object names, where two jobs may then meet; its webhook refuses it today
    with pytest.raises(InvalidJob, match=r"metadata\.name"):
        moved(name="a/b")


def test_c25_pods_are_named_job_type_index() -> None:
    # the pods of later attempts have -r1, -r2, ... behind it, so that none waits for an earlier one to vanish
    _, pods = made({"Chief": replica(1), "Worker": replica(2), "PS": replica(1), "Evaluator": replica(1)})
    assert sorted(pods) == [f"fashion-{end}" for end in ("chief-0", "evaluator-0", "ps-0", "worker-0", "worker-1")]


@pytest.mark.parametrize("policy", ["ExitCode", "Never", "OnFailure", "Always"])
def test_c26_no_kubelet_restarts_a_container_whatever_the_policy(policy: str) -> None:
    # the peer lets the kubelet do it under OnFailure and Always; TensorFlow's other replicas then wait for a
    # member that has forgotten them. TFDist restarts all that belong together
    (pod,) = made({"Worker": replica(1, restart_policy=policy)})[1].values()
    assert pod["spec"]["restartPolicy"] == "Never"


def test_c27_the_templates_own_restart_policy_means_nothing() -> None:
    types = {"Worker": replica(1, pod={"restartPolicy": "Always"})}
    assert made(types)[1]["fashion-worker-0"]["spec"]["restartPolicy"] == "Never"
    # the peer says so in an event on the job, when it runs; here it is said when it is converted
    assert any(note.path.endswith("template.spec.restartPolicy") for note in convert(tfjob(types)).notes)
