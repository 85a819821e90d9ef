"""The behaviour of a TFJob, case by case, for a job that was converted from a TFJob.

The numbers of the cases are those of `docs/tfjob-differences.md`. Where TFDist differs on purpose, a comment in the
test states how the training operator behaves and why TFDist does not.
"""

from typing import Any

import pytest
from support.factories import FIRST_ATTEMPT, UID, condition, planned, stored
from support.tfjobs import IMAGE, replica, tfjob

from tfdist.api.crd import crd
from tfdist.api.v1 import TFDistJob
from tfdist.convert import CannotConvert, convert
from tfdist.desired.objects import objects
from tfdist.validation import ValidationFailed, parse

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


def conversion_errors(given: Json) -> list[tuple[str, str]]:
    with pytest.raises(CannotConvert) as error:
        convert(given)
    return [(problem.path, problem.message) for problem in error.value.problems]


# Defaulting and validation


def test_c01_a_worker_without_settings_gets_the_training_operators_defaults() -> None:
    job = moved({"Worker": replica()})
    assert job.spec.worker is not None
    assert job.spec.worker.replicas == 1
    assert job.spec.failure_policy is not None
    assert job.spec.failure_policy.rules[-1].action == "FailJob"
    assert job.spec.run_policy.clean_pod_policy == "None"
    assert job.spec.success_policy == "Chief"  # without a chief: worker 0, as "" of the training operator


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


def test_c05_a_name_that_is_not_a_dns_label_is_rejected() -> None:
    # by the validation of the new job, which also rejects names that are too long for its pods: jobs of the
    # training operator hang there
    with pytest.raises(ValidationFailed, match=r"metadata\.name"):
        moved(name="00test")


def test_c06_a_template_without_containers_has_two_errors() -> None:
    errors = conversion_errors(tfjob({"Worker": replica(pod={"containers": []})}))
    assert [path for path, _ in errors] == [CONTAINERS] * 2


def test_c07_an_empty_image_is_rejected() -> None:
    assert conversion_errors(tfjob({"Worker": replica(image="")}))[0][0] == f"{CONTAINERS}[0].image"


def test_c08_a_template_without_a_container_named_tensorflow_is_rejected() -> None:
    errors = conversion_errors(tfjob({"Worker": replica(name="main")}))
    assert errors == [(CONTAINERS, "one container must be named tensorflow")]


def test_c09_chief_and_master_in_one_job_are_rejected() -> None:
    assert "Chief and Master" in conversion_errors(tfjob({"Chief": replica(), "Master": replica()}))[0][1]


def test_c10_a_manager_unknown_to_the_training_operator_is_rejected_and_its_own_name_accepted() -> None:
    assert conversion_errors(tfjob(policy={"managedBy": "other-job-controller"}))[0][0] == "spec.runPolicy.managedBy"
    # the training operator's name is left out: TFDist's own controller manages jobs without a name
    assert moved(policy={"managedBy": "kubeflow.org/training-operator"}).spec.run_policy.managed_by is None


def test_c11_the_manager_cannot_be_changed() -> None:
    # the API server itself rejects the change by a rule of the CRD: no webhook can be down
    rules = crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["x-kubernetes-validations"]
    assert any("runPolicy.managedBy is immutable" in rule["message"] for rule in rules)


# Creation


def test_c12_one_worker_is_one_pod_and_one_service() -> None:
    service, pods = made({"Worker": replica(1)})
    assert (service["metadata"]["name"], list(pods)) == ("fashion", ["fashion-worker-0"])


def test_c13_four_workers_and_two_ps_are_six_pods() -> None:
    # and one Service for all pods instead of six, so half the requests: the host name of a pod makes its address
    service, pods = made(WORKERS_AND_PS)
    assert len(pods) == 6
    assert service["metadata"]["name"] == "fashion"


def test_c14_while_all_pods_are_pending_none_is_created_and_the_job_is_not_running() -> None:
    pods = "worker-0:P worker-1:P worker-2:P worker-3:P ps-0:P ps-1:P"
    assert planned(pods, job=moved(WORKERS_AND_PS)).creates == ()
    assert not [c for c in stored(pods, job=moved(WORKERS_AND_PS))["conditions"] if c["type"] == "Running"]


def test_c15_a_job_whose_pods_all_run_is_running() -> None:
    status = stored("worker-0:R worker-1:R worker-2:R worker-3:R ps-0:R ps-1:R", job=moved(WORKERS_AND_PS))
    assert condition(status, "Running")["status"] == "True"
    assert (status["replicas"]["worker"]["running"], status["replicas"]["ps"]["running"]) == (4, 2)
    assert status["startTime"]


def test_c16_missing_pods_are_created() -> None:
    plan = planned("worker-0:P worker-1:P ps-0:P", FIRST_ATTEMPT, job=moved(WORKERS_AND_PS))
    assert [p["metadata"]["name"] for p in plan.creates] == ["fashion-worker-2", "fashion-worker-3", "fashion-ps-1"]


def test_c17_one_running_worker_does_not_make_a_running_job() -> None:
    # with the training operator the job is running, which hides that other pods are unschedulable while the running
    # ones are idle on their nodes
    pods = "worker-0:P worker-1:P worker-2:R ps-0:P"
    plan = planned(pods, FIRST_ATTEMPT, job=moved(WORKERS_AND_PS))
    assert [p["metadata"]["name"] for p in plan.creates] == ["fashion-worker-3", "fashion-ps-1"]
    assert stored(pods, FIRST_ATTEMPT, job=moved(WORKERS_AND_PS))["phase"] == "Starting"


def test_c18_one_succeeded_worker_does_not_end_the_job() -> None:
    pods = "worker-0:P worker-1:P worker-2:S ps-0:P"
    plan = planned(pods, FIRST_ATTEMPT, job=moved(WORKERS_AND_PS))
    assert [p["metadata"]["name"] for p in plan.creates] == ["fashion-worker-3", "fashion-ps-1"]
    types = {c["type"] for c in stored(pods, FIRST_ATTEMPT, job=moved(WORKERS_AND_PS))["conditions"]}
    assert not types & {"Running", "Succeeded"}


def test_c19_a_job_whose_pods_all_succeeded_has_succeeded() -> None:
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
            "blockOwnerDeletion": False,  # true, as in the training operator, only delays foreground deletion
        }


def test_c21_labels_and_annotations_of_the_template_reach_the_pod() -> None:
    worker = replica(1)
    worker["template"]["metadata"] = {"labels": {"a": "b"}, "annotations": {"c": "d"}}
    meta = made({"Worker": worker})[1]["fashion-worker-0"]["metadata"]
    assert meta["labels"]["a"] == "b"
    assert meta["annotations"] == {"c": "d"}


def test_c22_the_service_is_headless_and_finds_the_pods_before_they_are_ready() -> None:
    # one Service for each job, with TensorFlow's port alone; the Services of the training operator do not resolve pods
    # that are not ready, and other replicas, not ready either, wait for these addresses
    spec = made(WORKERS_AND_PS)[0]["spec"]
    assert spec["clusterIP"] == "None"
    assert spec["publishNotReadyAddresses"] is True
    assert spec["ports"] == [{"name": "tfdist-port", "port": 2222, "protocol": "TCP"}]
    labels = made(WORKERS_AND_PS)[1]["fashion-ps-1"]["metadata"]["labels"]
    assert spec["selector"].items() <= labels.items()
    assert (labels["tfdist.dev/job"], labels["tfdist.dev/role"], labels["tfdist.dev/index"]) == ("fashion", "ps", "1")


def test_c23_objects_of_a_job_without_a_uid_can_be_rendered_with_an_empty_owner() -> None:
    # the training operator fails here; `tfdist render` shows objects of jobs that no API server stores, and the
    # controller only reads jobs that have a UID
    service, *_ = objects(parse(convert(tfjob()).manifest), IMAGE)
    assert service["metadata"]["ownerReferences"][0]["uid"] == ""


def test_c24_a_slash_in_the_name_is_rejected() -> None:
    # the training operator replaces it in labels and object names, so that two jobs may have equal ones; today its
    # webhook rejects it
    with pytest.raises(ValidationFailed, match=r"metadata\.name"):
        moved(name="a/b")


def test_c25_pods_are_named_job_type_index() -> None:
    # pods of later attempts have the suffix -r1, -r2, ..., so that none waits until an earlier pod is deleted
    _, pods = made({"Chief": replica(1), "Worker": replica(2), "PS": replica(1), "Evaluator": replica(1)})
    assert sorted(pods) == [f"fashion-{end}" for end in ("chief-0", "evaluator-0", "ps-0", "worker-0", "worker-1")]


@pytest.mark.parametrize("policy", ["ExitCode", "Never", "OnFailure", "Always"])
def test_c26_with_any_policy_the_kubelet_restarts_no_container(policy: str) -> None:
    # with the training operator the kubelet restarts it under OnFailure and Always; TensorFlow's other replicas then
    # wait for a process that has lost its state. TFDist restarts the whole gang
    (pod,) = made({"Worker": replica(1, restart_policy=policy)})[1].values()
    assert pod["spec"]["restartPolicy"] == "Never"


def test_c27_the_restart_policy_of_the_template_is_ignored() -> None:
    types = {"Worker": replica(1, pod={"restartPolicy": "Always"})}
    assert made(types)[1]["fashion-worker-0"]["spec"]["restartPolicy"] == "Never"
    # the training operator publishes an event on the job when it runs; here the conversion has a note
    assert any(note.path.endswith("template.spec.restartPolicy") for note in convert(tfjob(types)).notes)
