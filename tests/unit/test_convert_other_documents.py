"""Documents next to a TFJob that select, refer to or contain it have a note, and remain as they are."""

from copy import deepcopy
from typing import Any

import pytest
import yaml
from support.tfjobs import tfjob

from tfdist.convert import notes_on_other

Json = dict[str, Any]

JOB = {"training.kubeflow.org/job-name": "fashion"}
LABELS = {"app": "fashion", "team": "a"}
OTHERS = {"app": "fashion", "team": "a", "group-name": "shop", "tfdist.dev/job": "fashion"}


def document(kind: str = "Service", spec: Any = None, **fields: Any) -> Json:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": "x"}} | ({"spec": spec} if spec else {}) | fields


def notes(given: Json, *jobs: str) -> dict[str, str]:
    before = deepcopy(given)
    found = {note.path: note.message for note in notes_on_other(given, {job: [LABELS] for job in jobs})}
    assert given == before
    return found


SELECTORS: dict[str, tuple[Json, str]] = {
    "Service": ({"selector": JOB}, "spec.selector['training.kubeflow.org/job-name']"),
    "PodDisruptionBudget": (
        {"selector": {"matchLabels": {"tf-job-name": "fashion"}}},
        "spec.selector.matchLabels.tf-job-name",
    ),
    "PodMonitor": (
        {"selector": {"matchExpressions": [{"key": "tf-replica-type", "operator": "Exists"}]}},
        "spec.selector.matchExpressions[0].key",
    ),
    "NetworkPolicy": (
        {"podSelector": {}, "ingress": [{"from": [{"podSelector": {"matchLabels": {"group-name": "kubeflow.org"}}}]}]},
        "spec.ingress[0].from[0].podSelector.matchLabels.group-name",
    ),
    "Deployment with an affinity": (
        {"affinity": {"podAffinity": {"required": [{"labelSelector": {"matchLabels": JOB}}]}}},
        "spec.affinity.podAffinity.required[0].labelSelector.matchLabels['training.kubeflow.org/job-name']",
    ),
    "PodMonitor with labels of metrics": (
        {"podTargetLabels": ["team", "training.kubeflow.org/job-name"]},
        "spec.podTargetLabels[1]",
    ),
    "PrometheusRule": ({"expr": 'up{training_kubeflow_org_job_name="fashion"}'}, "spec.expr"),
    "script": ({"command": ["kubectl", "logs", "-l", "training.kubeflow.org/replica-type=worker"]}, "spec.command[3]"),
}


@pytest.mark.parametrize("name", SELECTORS)
def test_a_selector_by_labels_of_the_training_operator_has_a_note_at_its_field(name: str) -> None:
    spec, path = SELECTORS[name]
    found = notes(document(spec=spec))
    assert list(found) == [path]
    assert found[path].startswith("no pod of a TFDistJob has the label ")


@pytest.mark.parametrize(
    ("label", "value", "new"),
    [
        ("training.kubeflow.org/job-name", "fashion", "tfdist.dev/job"),
        ("training.kubeflow.org/replica-type", "worker", "tfdist.dev/role"),
        ("training.kubeflow.org/replica-index", "0", "tfdist.dev/index"),
        ("training.kubeflow.org/job-role", "master", "tfdist.dev/role"),
        ("training.kubeflow.org/operator-name", "tfjob-controller", "app.kubernetes.io/managed-by: tfdist"),
        ("training.kubeflow.org/other", "x", "tfdist.dev/job or tfdist.dev/role"),
        ("tf-job-name", "fashion", "tfdist.dev/job"),
        ("tf-replica-index", "0", "tfdist.dev/index"),
        ("group-name", "kubeflow.org", "app.kubernetes.io/managed-by: tfdist"),
        ("job-name", "fashion", "tfdist.dev/job"),
    ],
)
def test_the_note_names_the_label_of_tfdist(label: str, value: str, new: str) -> None:
    (text,) = notes(document(spec={"selector": {label: value}}), "fashion").values()
    assert text == f"no pod of a TFDistJob has the label {label}; select {new} instead"


def test_several_labels_of_one_selector_have_one_note() -> None:
    expressions = [{"key": "tf-replica-index", "operator": "In", "values": ["0"]}]
    (text,) = notes(document(spec={"selector": {"matchLabels": JOB, "matchExpressions": expressions}})).values()
    assert "select tfdist.dev/job and tfdist.dev/index instead" in text


@pytest.mark.parametrize(
    "given",
    [
        document(spec={"selector": OTHERS | {"team": "b"}}),
        document(spec={"selector": {"job-name": "another"}}),
        document(metadata={"name": "x", "labels": JOB, "annotations": {"last-applied": "tf-job-name: fashion"}}),
        document("Deployment", {"template": {"metadata": {"labels": JOB}}}),
        document("ConfigMap", data={"train.py": "print('kind of TFJobs')", "note": "fashion-worker"}),
        document(spec={"selector": {"app": "tfjob"}, "image": "registry/tfjob/trainer:1"}),
        document("ClusterRole", rules=[{"apiGroups": ["kubeflow.org"], "resources": ["notebooks"]}]),
    ],
    ids=["own labels", "label of a Job", "labels of the document", "labels of other pods", "text", "name", "rights"],
)
def test_a_document_that_relies_on_no_tfjob_has_no_note(given: Json) -> None:
    assert notes(given, "fashion") == {}


EMBEDDED: dict[str, tuple[Json, str]] = {
    "Argo resource template": (
        document("Workflow", {"templates": [{"resource": {"action": "create", "manifest": yaml.safe_dump(tfjob())}}]}),
        "spec.templates[0].resource.manifest",
    ),
    "Argo template in JSON": (
        document("WorkflowTemplate", {"templates": [{"resource": {"manifest": '{"kind": "TFJob", "spec": {}}'}}]}),
        "spec.templates[0].resource.manifest",
    ),
    "Katib trial": (
        document("Experiment", {"trialTemplate": {"trialSpec": tfjob()}}, apiVersion="kubeflow.org/v1beta1"),
        "spec.trialTemplate.trialSpec",
    ),
    "ConfigMap": (
        document("ConfigMap", data={"job.yaml": "apiVersion: kubeflow.org/v1\nkind: TFJob\n"}),
        "data['job.yaml']",
    ),
    "KubeDL Cron": (document("Cron", {"template": {"workload": tfjob()}}), "spec.template.workload"),
}


@pytest.mark.parametrize("name", EMBEDDED)
def test_a_tfjob_inside_of_another_object_has_a_note(name: str) -> None:
    given, path = EMBEDDED[name]
    assert notes(given)[path].startswith("a TFJob inside of another object is not converted")


def test_the_selector_of_the_pods_of_a_katib_trial_has_a_note_too() -> None:
    template = {"primaryPodLabels": {"training.kubeflow.org/job-role": "master"}, "trialSpec": tfjob()}
    assert list(notes(document("Experiment", {"trialTemplate": template}))) == [
        "spec.trialTemplate.primaryPodLabels['training.kubeflow.org/job-role']",
        "spec.trialTemplate.trialSpec",
    ]


def test_the_deadline_of_a_schedule_of_tfjobs_has_a_note_with_the_field_of_a_tfdistjob() -> None:
    manifest = {"templates": [{"resource": {"manifest": yaml.safe_dump(tfjob())}}]}
    spec = {"startingDeadlineSeconds": 60, "workflowSpec": manifest}
    found = notes(document("CronWorkflow", spec))
    assert "runPolicy.startDeadlineSeconds" in found["spec.startingDeadlineSeconds"]
    assert notes(document("CronJob", {"startingDeadlineSeconds": 60})) == {}


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        (
            {"rules": [{"apiGroups": ["kubeflow.org"], "resources": ["tfjobs", "tfjobs/status"]}]},
            "rules[0].resources[0]",
        ),
        ({"hard": {"a": 1}, "scopes": ["count/tfjobs.kubeflow.org"]}, "scopes[0]"),
        ({"scaleTargetRef": {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": "fashion"}}, "scaleTargetRef"),
        ({"match": {"kinds": ["kubeflow.org/v1/TFJob"]}}, "match.kinds[0]"),
        ({"hard": {"count/tfjobs.kubeflow.org": 5}}, "hard['count/tfjobs.kubeflow.org']"),
        ({"rules": [{"apiGroups": ["kubeflow.org"], "resources": ["*"], "verbs": ["get"]}]}, "rules[0].apiGroups"),
        ({"command": ["sh", "-c", "set -e\nkubectl delete tfjob fashion"]}, "command[2]"),
        ({"args": ["wait", "--for=condition=Succeeded", "tfjob/fashion"]}, "args[2]"),
        ({"integrations": {"frameworks": ["batch/job", "kubeflow.org/tfjob"]}}, "integrations.frameworks[1]"),
    ],
    ids=["rights", "scopes", "scale", "policy", "quota", "all rights", "script", "arguments", "queue"],
)
def test_a_reference_to_the_resource_has_one_note(spec: Json, path: str) -> None:
    found = notes(document(spec=spec))
    assert list(found) == [f"spec.{path}"]
    assert "tfdistjobs" in found[f"spec.{path}"]


def test_an_alert_on_metrics_of_the_training_operator_has_a_note() -> None:
    rule = {"expr": 'increase(training_operator_jobs_failed_total{framework="tensorflow"}[5m]) > 0'}
    assert (
        "names begin with tfdist_"
        in notes(document("PrometheusRule", {"groups": [{"rules": [rule]}]}))["spec.groups[0].rules[0].expr"]
    )


def test_the_pods_of_a_katib_trial_by_the_role_of_old_versions_have_a_note() -> None:
    template = {"primaryPodLabels": {"job-role": "master"}, "configMap": {"configMapName": "t"}}
    found = notes(document("Experiment", {"trialTemplate": template}))
    assert list(found) == ["spec.trialTemplate.primaryPodLabels.job-role"]


def test_the_port_and_the_service_of_a_replica_have_notes() -> None:
    spec = {"ports": [{"port": 1, "targetPort": "tfjob-port"}], "externalName": "fashion-worker-0.team.svc"}
    found = notes(document(spec=spec), "fashion")
    assert "tfdist-port" in found["spec.ports[0].targetPort"]
    assert "worker-0.fashion" in found["spec.externalName"]
    assert list(notes(document(spec=spec), "other")) == ["spec.ports[0].targetPort"]


@pytest.mark.parametrize(
    ("kind", "selector", "noted"),
    [
        ("Service", {"app": "fashion"}, True),
        ("Service", LABELS, True),
        ("PodMonitor", {"matchLabels": {"team": "a"}}, True),
        ("Service", {"app": "another"}, False),
        ("Service", {}, False),
        ("PodDisruptionBudget", {"matchLabels": LABELS}, False),
    ],
)
def test_what_connects_to_pods_by_their_own_labels_meets_the_network_policy(
    kind: str, selector: Json, noted: bool
) -> None:
    found = notes(document(kind, {"selector": selector, "ports": [{"port": 80, "targetPort": 6006}]}), "fashion")
    assert list(found) == (["spec.selector"] if noted else [])
    if noted:
        assert found["spec.selector"].startswith("selects pods of fashion, whose NetworkPolicy closes")


@pytest.mark.parametrize(
    ("version", "template", "place"),
    [
        ("v1beta1", {"configMap": {"configMapName": "t", "templatePath": "a.yaml"}}, "configMap"),
        ("v1alpha3", {"goTemplate": {"templateSpec": {"configMapName": "t"}}}, "goTemplate.templateSpec"),
    ],
)
def test_an_experiment_whose_template_is_in_a_config_map_has_a_note(
    version: str, template: dict[str, Any], place: str
) -> None:
    made = {"apiVersion": f"kubeflow.org/{version}", "kind": "Experiment", "spec": {"trialTemplate": template}}
    (note,) = notes_on_other(made, {})
    assert note.path == f"spec.trialTemplate.{place}"
    assert "convert the Experiment again" in note.message
