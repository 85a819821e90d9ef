"""The pods of a converted job are those of the TFJob, and are written once if the roles agree."""

from typing import Any

import pytest
from support import effective
from support.tfjobs import IMAGE, all_types, replica, tfjob

from tfdist.convert import Conversion, convert
from tfdist.desired.objects import objects
from tfdist.validation import parse

Json = dict[str, Any]

WORKER = "spec.tfReplicaSpecs.Worker.template"
ROLES = {"Chief": "chief", "Worker": "worker", "PS": "ps", "Evaluator": "evaluator"}


def spec(types: Json) -> Json:
    made: Json = convert(tfjob(types)).manifest["spec"]
    return made


def main_rest(made: Json) -> Json:
    """Return the container `tensorflow` of the template of a job or role."""
    found: Json = next(c for c in made["template"]["spec"]["containers"] if c["name"] == "tensorflow")
    return found


def notes(made: Conversion) -> dict[str, str]:
    return {note.path: note.message for note in made.notes}


SHORT: Json = {
    "imagePullPolicy": "Always",
    "command": ["python"],
    "args": ["train.py"],
    "workingDir": "/work",
    "env": [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
    "envFrom": [{"secretRef": {"name": "s"}}],
    "resources": {"limits": {"nvidia.com/gpu": 1}, "requests": {"cpu": "500m"}},
    "volumeMounts": [{"name": "data", "mountPath": "/data", "readOnly": True}],
}
VOLUMES: Json = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}
POD: Json = VOLUMES | {
    "restartPolicy": "OnFailure",
    "hostname": "me",
    "subdomain": "us",
    "serviceAccountName": "trainer",
    "automountServiceAccountToken": False,
    "nodeSelector": {"pool": "gpu"},
    "tolerations": [{"key": "gpu", "operator": "Exists"}],
    "securityContext": {"fsGroup": 100},
    "initContainers": [{"name": "fetch", "image": "fetch:1"}],
    "schedulerName": "mine",
    "priorityClassName": "high",
    "terminationGracePeriodSeconds": 60,
}


def test_a_field_with_a_short_form_is_written_in_the_short_form() -> None:
    made = spec({"Worker": replica(2, pod=VOLUMES, **SHORT)})
    assert {k: made[k] for k in SHORT} == SHORT
    assert made["volumes"] == VOLUMES["volumes"]
    assert made["image"] == IMAGE
    assert made["worker"] == {"replicas": 2}
    assert "template" not in made


def test_settings_of_all_roles_are_hoisted_to_the_job() -> None:
    made = spec(all_types(**SHORT))
    assert (made["chief"], made["worker"], made["ps"], made["evaluator"]) == ({}, {"replicas": 2}, {"replicas": 2}, {})


def test_the_most_common_setting_is_hoisted_and_the_other_role_keeps_its_own() -> None:
    types = all_types(command=["train"])
    types["Evaluator"] = replica(1, command=["evaluate"])
    made = spec(types)
    assert made["command"] == ["train"]
    assert made["evaluator"] == {"command": ["evaluate"]}


def test_a_field_that_one_role_does_not_have_stays_with_the_roles_that_have_it() -> None:
    made = spec({"Chief": replica(args=["--chief"]), "Worker": replica(2)})
    assert made["chief"] == {"args": ["--chief"]}
    assert "args" not in made


def test_a_common_prefix_of_a_list_is_hoisted_in_its_order() -> None:
    shared, own = {"name": "A", "value": "1"}, {"name": "B", "value": "$(A)"}
    types = {"Chief": replica(env=[shared]), "Worker": replica(2, env=[shared, own])}
    made = spec(types)
    assert made["env"] == [shared]
    assert made["worker"]["env"] == [own]


def test_a_role_keeps_what_differs() -> None:
    gpus = {"limits": {"nvidia.com/gpu": 1}}
    made = spec({"Worker": replica(2, resources=gpus), "PS": replica(1, resources={"limits": {"cpu": "1"}})})
    assert made["worker"] == {"replicas": 2, "resources": gpus}
    assert made["ps"] == {"replicas": 1, "resources": {"limits": {"cpu": "1"}}}


def test_the_rest_of_the_pod_is_in_the_template() -> None:
    made = spec({"Worker": replica(2, pod=POD, lifecycle={"preStop": {"exec": {"command": ["save"]}}})})
    template = made["template"]["spec"]
    assert template["nodeSelector"] == {"pool": "gpu"}
    assert template["securityContext"] == {"fsGroup": 100}
    assert main_rest(made)["lifecycle"] == {"preStop": {"exec": {"command": ["save"]}}}


def test_a_value_that_the_short_form_cannot_express_is_in_the_template() -> None:
    script = "x" * 5000
    made = spec({"Worker": replica(2, args=[script])})
    assert "args" not in made
    assert main_rest(made)["args"] == [script]


@pytest.mark.parametrize("name", ["restartPolicy", "hostname", "subdomain"])
def test_a_field_that_the_controller_sets_is_dropped_with_a_note(name: str) -> None:
    made = convert(tfjob({"Worker": replica(2, pod=POD)}))
    assert name not in made.manifest["spec"]["template"]["spec"]
    assert "dropped" in notes(made)[f"{WORKER}.spec.{name}"]


def test_nulls_and_empty_fields_of_an_exported_manifest_are_dropped() -> None:
    exported = replica(2, resources={}, env=[], pod={"securityContext": {}, "volumes": []})
    exported["template"]["metadata"] = {"creationTimestamp": None}
    exported["template"]["spec"]["nodeName"] = None
    plain = convert(tfjob({"Worker": replica(2)}))
    assert convert(tfjob({"Worker": exported})) == plain


def test_labels_and_annotations_of_the_template_reach_the_pods_and_nothing_else_of_its_metadata() -> None:
    given = replica(2)
    given["template"]["metadata"] = {"labels": {"a": "b"}, "annotations": {"c": "d"}, "name": "x"}
    made = convert(tfjob({"Worker": given}))
    assert made.manifest["spec"]["template"]["metadata"] == {"labels": {"a": "b"}, "annotations": {"c": "d"}}
    assert "dropped" in notes(made)[f"{WORKER}.metadata.name"]


@pytest.mark.parametrize("port", [{}, {"protocol": "TCP"}])
def test_the_default_port_is_not_written(port: Json) -> None:
    made = spec({"Worker": replica(2, ports=[{"name": "tfjob-port", "containerPort": 2222} | port])})
    assert "template" not in made


def test_another_port_of_tensorflow_keeps_its_number_and_other_ports_stay() -> None:
    other = {"name": "metrics", "containerPort": 9090}
    made = spec({"Worker": replica(2, ports=[{"name": "tfjob-port", "containerPort": 3333}, other])})
    assert main_rest(made)["ports"] == [{"name": "tfdist-port", "containerPort": 3333}, other]


@pytest.mark.parametrize("name", ["TF_CONFIG", "TFDIST_JOB"])
def test_a_variable_that_tfdist_writes_is_dropped_with_a_note(name: str) -> None:
    env = [{"name": "A", "value": "1"}, {"name": name, "value": "{}"}]
    made = convert(tfjob({"Worker": replica(2, env=env)}))
    assert made.manifest["spec"]["env"] == env[:1]
    assert f"{name} is generated" in notes(made)[f"{WORKER}.spec.containers[0].env[1]"]


def test_of_a_variable_that_is_set_twice_the_last_counts() -> None:
    env = [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]
    made = convert(tfjob({"Worker": replica(2, env=env)}))
    assert made.manifest["spec"]["env"] == [{"name": "A", "value": "2"}]
    assert "which takes effect" in notes(made)[f"{WORKER}.spec.containers[0].env[0]"]


def test_the_pod_that_is_made_keeps_the_capabilities_that_it_had() -> None:
    pod = objects(parse(convert(tfjob({"Worker": replica(1)})).manifest), IMAGE)[-1]
    assert "capabilities" not in pod["spec"]["containers"][0]["securityContext"]
    assert "runAsNonRoot" not in pod["spec"]["securityContext"]


def test_containers_keep_the_rights_that_they_gave_up() -> None:
    own = {"capabilities": {"drop": ["ALL"], "add": ["IPC_LOCK"]}, "allowPrivilegeEscalation": False}
    assert main_rest(spec({"Worker": replica(2, securityContext=own)}))["securityContext"] == own


def test_a_service_account_by_its_older_name_has_the_newer_now() -> None:
    made = spec({"Worker": replica(2, pod={"serviceAccount": "trainer"})})
    assert made["template"]["spec"]["serviceAccountName"] == "trainer"
    assert "serviceAccount" not in made["template"]["spec"]


@pytest.mark.parametrize(
    "text", ["fashion-worker-0.team.svc:2222", "FASHION-PS-1", "training.kubeflow.org/replica-index", "tfReplica"]
)
def test_a_name_that_only_the_training_operator_provides_is_found(text: str) -> None:
    made = convert(tfjob({"Worker": replica(2, args=["a", f"--at={text}"], env=[{"name": "P", "value": text}])}))
    found = [note for note in made.notes if "no longer exists" in note.message]
    place = f"{WORKER}.spec.containers[0]"
    assert [note.path for note in found] == [f"{place}.args[1]", f"{place}.env[0].value"]
    assert "worker-0.fashion" in found[0].message


def test_a_job_that_mentions_no_such_name_has_no_such_note() -> None:
    made = convert(tfjob({"Worker": replica(2, args=["--worker-0", "fashionable-worker-0"])}))
    assert not [note for note in made.notes if "no longer exists" in note.message]


def label_variable(name: str, label: str) -> Json:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{label}']"}}}


@pytest.mark.parametrize(
    ("label", "new"),
    [
        ("training.kubeflow.org/job-name", "tfdist.dev/job"),
        ("training.kubeflow.org/replica-type", "tfdist.dev/role"),
        ("training.kubeflow.org/replica-index", "tfdist.dev/index"),
        ("tf-replica-index", "tfdist.dev/index"),
        ("replica-index", "tfdist.dev/index"),
    ],
)
def test_a_reference_to_a_label_of_the_training_operator_becomes_one_to_its_counterpart(label: str, new: str) -> None:
    made = convert(tfjob(all_types(env=[label_variable("RANK", label)])))
    assert made.manifest["spec"]["env"] == [label_variable("RANK", new)]
    (note,) = [note for note in made.notes if "becomes metadata.labels" in note.message]
    assert note.path.endswith(".spec.containers[0].env[0].valueFrom.fieldRef.fieldPath")
    assert note.message == f"becomes metadata.labels['{new}']; also in Worker, PS, Evaluator"


def test_a_reference_to_a_label_of_the_templates_own_is_kept() -> None:
    given = replica(2, env=[label_variable("RANK", "replica-index")])
    given["template"]["metadata"] = {"labels": {"replica-index": "7"}}
    assert spec({"Worker": given})["env"] == [label_variable("RANK", "replica-index")]


def test_each_place_with_a_label_of_the_training_operator_has_a_note() -> None:
    labels = {"matchLabels": {"training.kubeflow.org/job-name": "fashion"}}
    term = {"labelSelector": labels, "topologyKey": "kubernetes.io/hostname"}
    pod = {
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
        "topologySpreadConstraints": [term | {"labelSelector": {"matchLabels": {"job-name": "fashion"}}}],
    }
    made = convert(tfjob({"Worker": replica(2, pod, env=[label_variable("R", "training.kubeflow.org/job-role")])}))
    assert [note.path for note in made.notes if "no longer exists" in note.message] == [
        f"{WORKER}.spec.containers[0].env[0].valueFrom.fieldRef.fieldPath",
        f"{WORKER}.spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector"
        ".matchLabels['training.kubeflow.org/job-name']",
        f"{WORKER}.spec.topologySpreadConstraints[0].labelSelector.matchLabels.job-name",
    ]


def differing() -> Json:
    """Return replica types with some equal and some different fields, in sidecar containers too."""
    types = all_types(**SHORT)
    types["Worker"] = replica(2, pod=POD, **SHORT | {"env": [SHORT["env"][0]], "args": ["other"]})
    types["PS"] = replica(1, resources={"limits": {"cpu": "2"}}, ports=[{"name": "tfjob-port", "containerPort": 3333}])
    types["Evaluator"]["template"]["spec"]["containers"].insert(0, {"name": "proxy", "image": "proxy:1"})
    types["Chief"]["template"]["metadata"] = {"labels": {"a": "b", "c": "d"}}
    types["Worker"]["template"]["metadata"] = {"labels": {"a": "b"}, "annotations": {"e": "f"}}
    for given in types.values():
        given["template"]["spec"]["volumes"] = VOLUMES["volumes"]
    return types


@pytest.mark.parametrize(
    "types",
    [
        {"Worker": replica(2)},
        {"Worker": replica(2, pod=POD, **SHORT)},
        all_types(VOLUMES, **SHORT),
        differing(),
        {k: v for k, v in differing().items() if k != "Evaluator"},
    ],
    ids=["plain", "full", "alike", "differing", "differing, without evaluator"],
)
def test_the_merged_pod_of_every_role_is_that_of_the_tfjob(types: Json) -> None:
    made = convert(tfjob(types)).manifest
    parse(made)
    for key, given in types.items():
        assert effective.of_role(made, ROLES[key]) == effective.of_tfjob(given["template"]), key


PORT = {"port": "tfjob-port"}
HANDLERS: dict[str, Json] = {
    "startupProbe": {"startupProbe": {"tcpSocket": PORT, "failureThreshold": 60}},
    "readinessProbe": {"readinessProbe": {"httpGet": PORT | {"path": "/"}}},
    "livenessProbe": {"livenessProbe": {"tcpSocket": PORT}},
    "preStop": {"lifecycle": {"preStop": {"httpGet": PORT | {"path": "/save"}}}},
    "postStart": {"lifecycle": {"postStart": {"tcpSocket": PORT}}},
}


OWN_PORT: Json = {"ports": [{"name": "tfjob-port", "containerPort": 3333}]}


@pytest.mark.parametrize("ports", [{}, OWN_PORT], ids=["none", "own"])
@pytest.mark.parametrize("name", HANDLERS)
def test_a_probe_or_hook_refers_to_a_port_that_its_container_has(name: str, ports: Json) -> None:
    made = convert(tfjob({"Worker": replica(2, **HANDLERS[name], **ports)}))
    for pod in [each for each in objects(parse(made.manifest), IMAGE) if each["kind"] == "Pod"]:
        (container,) = pod["spec"]["containers"]
        assert "tfjob-port" not in str(container)
        assert str(container).count("'port': 'tfdist-port'") == 1
        assert "tfdist-port" in [port["name"] for port in container["ports"]]
    assert not [note for note in made.notes if "tfdist-port" in note.message]


@pytest.mark.parametrize("port", ["web", 2222, 8080])
def test_a_probe_of_another_port_is_unchanged(port: Any) -> None:
    fields: Json = {"livenessProbe": {"tcpSocket": {"port": port}}, "ports": [{"name": "web", "containerPort": 80}]}
    assert main_rest(spec({"Worker": replica(2, **fields)}))["livenessProbe"] == fields["livenessProbe"]


def test_a_sidecar_keeps_the_name_of_its_own_port() -> None:
    sidecar: Json = {"name": "proxy", "image": "proxy:1", "ports": [{"name": "tfjob-port", "containerPort": 99}]}
    sidecar["readinessProbe"] = {"tcpSocket": PORT}
    given = replica(2)
    given["template"]["spec"]["containers"].append(sidecar)
    assert sidecar in spec({"Worker": given})["template"]["spec"]["containers"]


def test_a_policy_that_restarts_a_resized_container_is_dropped_with_a_note() -> None:
    policies = [{"resourceName": "cpu", "restartPolicy": n} for n in ("NotRequired", "RestartContainer")]
    made = convert(tfjob({"Worker": replica(2, resizePolicy=policies)}))
    parse(made.manifest)
    assert main_rest(made.manifest["spec"])["resizePolicy"] == policies[:1]
    assert "restartPolicy Never" in notes(made)[f"{WORKER}.spec.containers[0].resizePolicy"]


@pytest.mark.parametrize(("account", "token"), [({}, False), ({"serviceAccountName": "a"}, None)])
def test_the_account_of_a_pod_decides_about_its_token(account: Json, token: bool | None) -> None:
    pod = objects(parse(convert(tfjob({"Worker": replica(1, account)})).manifest), IMAGE)[-1]
    assert pod["spec"].get("automountServiceAccountToken") is token
