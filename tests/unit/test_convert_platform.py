"""What TFDist gives pods, or takes from them, without a field of the TFJob that shows it, has a note."""

from typing import Any

import pytest
from support.tfjobs import all_types, replica, tfjob

from tfdist.convert import convert
from tfdist.validation import parse

Json = dict[str, Any]

WORKER = "spec.tfReplicaSpecs.Worker.template"


def notes(types: Json) -> dict[str, str]:
    made = convert(tfjob(types))
    parse(made.manifest)
    return {note.path: note.message for note in made.notes}


def notes_with(types: Json, text: str) -> dict[str, str]:
    return {path: message for path, message in notes(types).items() if text in message}


def labelled(kind: str, **entries: str) -> Json:
    made = replica(2)
    made["template"]["metadata"] = {kind: {key.replace("__", "/").replace("_", "."): v for key, v in entries.items()}}
    return made


SILENT: Json = {"serviceAccountName": "trainer"}


@pytest.mark.parametrize("types", [{"Worker": replica(2, pod=SILENT)}, all_types(SILENT)], ids=["workers", "all types"])
def test_a_plain_job_has_no_note_on_its_platform(types: Json) -> None:
    texts = ("PodGroup", "progress report", "NetworkPolicy", "token", "emptyDir", "tfdist-port")
    assert not [text for text in notes(types).values() if any(each in text for each in texts)]


@pytest.mark.parametrize("name", ["kube-batch", "yunikorn", "koord-scheduler"])
def test_a_gang_scheduler_without_a_scheduling_policy_is_noted_once(name: str) -> None:
    found = notes_with(all_types({"schedulerName": name}), "PodGroup")
    assert list(found) == ["spec.tfReplicaSpecs.Chief.template.spec.schedulerName"]
    (text,) = found.values()
    assert text.startswith(
        f"{name} is kept, but TFDist creates no PodGroup for it: replicas are not started all or none"
    )
    assert "scheduling.timeoutSeconds" in text
    assert "runPolicy.startDeadlineSeconds" in text


def test_a_scheduler_of_the_users_own_may_be_a_gang_scheduler() -> None:
    (text,) = notes_with({"Worker": replica(2, pod={"schedulerName": "mine"})}, "PodGroup").values()
    assert text.startswith("if it is a gang scheduler: mine is kept")


@pytest.mark.parametrize("pod", [{"schedulerName": "default-scheduler"}, {"schedulerName": ""}, {}])
def test_the_scheduler_of_kubernetes_makes_no_gangs(pod: Json) -> None:
    assert not notes_with({"Worker": replica(2, pod=pod)}, "PodGroup")


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        ("labels", "pod-group.scheduling.sigs.k8s.io/name"),
        ("labels", "scheduling.x-k8s.io/pod-group"),
        ("annotations", "scheduling.k8s.io/group-name"),
        ("annotations", "scheduling.volcano.sh/queue-name"),
        ("annotations", "gang.scheduling.koordinator.sh/name"),
        ("labels", "kueue.x-k8s.io/pod-group-name"),
        ("annotations", "yunikorn.apache.org/task-group-name"),
    ],
)
def test_a_pod_group_in_labels_or_annotations_is_noted(kind: str, key: str) -> None:
    given = replica(2)
    given["template"]["metadata"] = {kind: {"team": "a", key: "g"}}
    assert list(notes_with({"Worker": given}, "PodGroup")) == [f"{WORKER}.metadata.{kind}['{key}']"]


def test_the_network_of_the_node_with_a_port_for_each_role_is_noted() -> None:
    types = {
        role: replica(1, {"hostNetwork": True}, ports=[{"name": "tfjob-port", "containerPort": number}])
        for role, number in (("Worker", 3333), ("Chief", 3334))
    }
    found = notes_with(types, "8790")
    assert list(found) == ["spec.tfReplicaSpecs.Chief.template.spec.hostNetwork"]
    assert "two replicas never share a node" in next(iter(found.values()))


METRICS = {"name": "metrics", "containerPort": 9102}


def test_declared_ports_that_the_network_policy_closes_are_named_once() -> None:
    types = all_types(ports=[{"name": "tfjob-port", "containerPort": 2222}, METRICS])
    types["Chief"]["template"]["spec"]["containers"].append(
        {"name": "board", "image": "board:1", "ports": [{"containerPort": 6006}]}
    )
    types["Worker"]["template"]["metadata"] = {"annotations": {"prometheus.io/port": "9102"}}
    assert notes_with(types, "NetworkPolicy") == {
        "spec.tfReplicaSpecs.Chief.template.spec.containers[0].ports[1]": "ports 9102 (metrics), 6006 are closed to "
        "pods outside of the job by its NetworkPolicy, also to Prometheus; to open them, write "
        "spec.networkPolicyIngress, or networkPolicy: Disabled"
    }


def test_a_port_that_only_an_annotation_declares_is_named() -> None:
    found = notes_with({"Worker": labelled("annotations", prometheus_io__port="8000")}, "NetworkPolicy")
    assert list(found) == [f"{WORKER}.metadata.annotations['prometheus.io/port']"]
    assert next(iter(found.values())).startswith("port 8000 is closed")


def test_a_sidecar_among_the_init_containers_has_ports_too() -> None:
    sidecar = {"name": "exporter", "image": "e:1", "restartPolicy": "Always", "ports": [METRICS]}
    found = notes_with({"Worker": replica(2, {"initContainers": [sidecar]})}, "NetworkPolicy")
    assert list(found) == [f"{WORKER}.spec.initContainers[0].ports[0]"]


def test_ports_in_the_network_of_the_node_stay_open() -> None:
    assert not notes_with({"Worker": replica(2, {"hostNetwork": True}, ports=[METRICS])}, "closed to")


def test_pods_without_the_token_of_the_default_account_are_noted_once() -> None:
    found = notes_with(all_types(), "token")
    assert list(found) == ["spec.tfReplicaSpecs.Chief.template.spec"]
    assert "serviceAccountName: default" in next(iter(found.values()))


@pytest.mark.parametrize(
    "pod",
    [
        {"serviceAccountName": "a"},
        {"serviceAccount": "a"},
        {"automountServiceAccountToken": False},
        {"automountServiceAccountToken": True},
    ],
)
def test_a_pod_that_decides_about_its_token_keeps_it_without_a_note(pod: Json) -> None:
    assert not notes_with({"Worker": replica(2, pod)}, "token")


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"command": ["python", "/tmp/train.py"]}, "command[1]"),
        ({"args": ["--data=/tmp/data"]}, "args[0]"),
        ({"workingDir": "/tmp/code"}, "workingDir"),
        ({"command": ["sh", "-c", "cd /tmp/a && sh run.sh"]}, "command[2]"),
        ({"env": [{"name": "A", "value": "/tmp/a.json"}]}, "env[0].value"),
        ({"lifecycle": {"preStop": {"exec": {"command": ["/tmp/save.sh"]}}}}, "lifecycle.preStop.exec.command[0]"),
    ],
)
def test_a_file_below_tmp_is_noted_because_a_volume_hides_that_of_the_image(fields: Json, path: str) -> None:
    assert list(notes_with({"Worker": replica(2, **fields)}, "emptyDir")) == [f"{WORKER}.spec.containers[0].{path}"]


@pytest.mark.parametrize("text", ["/var/tmp/a", "s3://logs/tmp/a", "/tmp", "hdfs:///tmp/a", "/tmpfs/a", "/data/tmp/a"])
def test_another_folder_is_not_hidden(text: str) -> None:
    assert not notes_with({"Worker": replica(2, args=[text])}, "emptyDir")


@pytest.mark.parametrize("mount", ["/tmp", "/tmp/", "/tmp/data"])
def test_a_file_on_a_volume_of_the_job_is_not_hidden(mount: str) -> None:
    pod = {"volumes": [{"name": "v", "emptyDir": {}}]}
    fields = {"args": ["/tmp/data/a"], "volumeMounts": [{"name": "v", "mountPath": mount}]}
    assert not notes_with({"Worker": replica(2, pod, **fields)}, "emptyDir")


@pytest.mark.parametrize("place", ["spec", "spec.runPolicy", "spec.runPolicy.schedulingPolicy"])
def test_a_deadline_that_a_tfjob_ignores_has_a_note_with_its_field_in_a_tfdistjob(place: str) -> None:
    given = tfjob()
    part = given
    for name in place.split("."):
        part = part.setdefault(name, {})
    part["startingDeadlineSeconds"] = 60
    made = convert(given)
    (text,) = [n.message for n in made.notes if n.path == f"{place}.startingDeadlineSeconds"]
    assert text.startswith("unknown to TFJob v1; dropped; ")
    assert text.endswith("write runPolicy.startDeadlineSeconds")


@pytest.mark.parametrize(
    "fields", [{"args": ["--port-name=tfjob-port"]}, {"env": [{"name": "P", "value": "tfjob-port"}]}]
)
def test_the_name_of_the_port_in_a_text_is_noted(fields: Json) -> None:
    assert len(notes_with({"Worker": replica(2, **fields)}, "'tfdist-port' now")) == 1
