"""What tfdist knows of the pod template is what the API server knows, and it merges two as the API server does."""

import pathlib
import runpy
from typing import Any

import pytest
from support.api import Api

from tfdist.podspec import merge, problems, schema
from tfdist.podspec.unions import members_set, union_members
from tfdist_cluster import kubernetes
from tfdist_cluster.versions import KUBERNETES

pytestmark = pytest.mark.integration

Json = dict[str, Any]

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEMPLATES = "/api/v1/namespaces/{ns}/podtemplates"

LOWER: Json = {
    "metadata": {"labels": {"a": "1", "b": "2"}, "finalizers": ["tfdist.dev/x"]},
    "spec": {
        "nodeSelector": {"disk": "fast"},
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "imagePullSecrets": [{"name": "one"}],
        "securityContext": {"runAsUser": 1, "fsGroup": 2},
        "topologySpreadConstraints": [{"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}],
        "volumes": [
            {"name": "data", "emptyDir": {"medium": "Memory"}},
            {"name": "code", "configMap": {"name": "code"}},
        ],
        "containers": [
            {
                "name": "tensorflow",
                "image": "trainer:1",
                "command": ["python", "train.py"],
                "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                "envFrom": [{"secretRef": {"name": "s"}}],
                "ports": [{"containerPort": 2222, "name": "tf"}],
                "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "1Gi"}},
                "volumeMounts": [{"name": "data", "mountPath": "/data"}, {"name": "code", "mountPath": "/code"}],
                "readinessProbe": {"exec": {"command": ["true"]}, "periodSeconds": 5},
            },
            {"name": "log", "image": "log:1"},
        ],
    },
}


def main_container(**fields: Any) -> Json:
    return {"spec": {"containers": [{"name": "tensorflow"} | fields]}}


LAYERS: dict[str, Json] = {
    "nothing": {},
    "metadata": {"metadata": {"labels": {"b": "3", "c": "4"}, "finalizers": ["tfdist.dev/y", "tfdist.dev/x"]}},
    "a selector, which merges although server-side apply calls it atomic": {"spec": {"nodeSelector": {"arch": "arm"}}},
    "tolerations": {"spec": {"tolerations": [{"key": "spot", "operator": "Exists"}]}},
    "no tolerations": {"spec": {"tolerations": []}},
    "secrets": {"spec": {"imagePullSecrets": [{"name": "two"}, {"name": "one"}]}},
    "security": {"spec": {"securityContext": {"runAsUser": 5, "seccompProfile": {"type": "RuntimeDefault"}}}},
    "a spread": {
        "spec": {"topologySpreadConstraints": [{"topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}]},
    },
    "a source": {"spec": {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}]}},
    "the same source": {"spec": {"volumes": [{"name": "data", "emptyDir": {"sizeLimit": "1Gi"}}]}},
    "a volume's name alone": {"spec": {"volumes": [{"name": "data"}]}},
    "variables": main_container(env=[{"name": "C", "value": "3"}, {"name": "A", "value": "4"}]),
    "a variable's source": main_container(
        env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
    ),
    "envFrom": main_container(envFrom=[{"configMapRef": {"name": "m"}}]),
    "ports": main_container(ports=[{"containerPort": 2222, "protocol": "UDP"}, {"containerPort": 80}]),
    "resources": main_container(resources={"limits": {"nvidia.com/gpu": 1}, "requests": {"memory": "512Mi"}}),
    "mounts": main_container(volumeMounts=[{"name": "code", "mountPath": "/data", "readOnly": True}]),
    "a probe": main_container(readinessProbe={"httpGet": {"port": "tf"}}),
    "a command": main_container(command=["sh"], args=["-c", "true"]),
    "another container": {"spec": {"containers": [{"name": "extra", "image": "extra:1"}]}},
    "initContainers": {"spec": {"initContainers": [{"name": "fetch", "image": "fetch:1"}]}},
}


def patch(value: Any, type_name: str) -> Any:
    """Return the patch of `kubectl apply` for a layer: it removes choices that are no longer named."""
    kind = schema.types().get(type_name)
    if kind is None:
        return value
    made = {}
    for name, content in value.items():
        of = kind.fields[name].type
        made[name] = [patch(item, of) for item in content] if isinstance(content, list) else patch(content, of)
        if kind.fields[name].shape == "map":
            made[name] = content
    if members_set(value, type_name):
        made["$retainKeys"] = sorted((kind.fields.keys() - union_members(type_name)) | value.keys())
    return made


def without_order(value: Any, type_name: str) -> Any:
    """A value whose merged lists are in the order of their keys: Kubernetes puts what is new first."""
    kind = schema.types().get(type_name)
    if kind is None or not isinstance(value, dict):
        return value
    made = {}
    for name, content in value.items():
        field = kind.fields[name]
        if field.shape == "list":
            items = [without_order(item, field.type) for item in content]
            made[name] = (
                sorted(items, key=lambda item: str(item[field.key] if field.key else item)) if field.merged else items
            )
        else:
            made[name] = without_order(content, field.type) if field.shape == "one" else content
    return made


def template(name: str, content: Json) -> Json:
    return {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": name}, "template": content}


@pytest.mark.skipif(kubernetes.chosen() != KUBERNETES, reason="an older API server knows fewer fields than the types")
def test_the_committed_types_are_those_of_the_api_server(api: Api) -> None:
    generator = runpy.run_path(str(ROOT / "hack" / "generate" / "crds" / "pod_schema.py"))
    document = api.do("GET", generator["DOCUMENT"])
    assert generator["text"](generator["pod_schema"](document)) == generator["FILE"].read_text(), (
        "the API server has other types: run `python hack/generate/crds/pod_schema.py KUBECONFIG`"
    )


@pytest.mark.parametrize("name", LAYERS)
def test_two_templates_become_what_the_api_server_makes_of_them(api: Api, namespace: str, name: str) -> None:
    path, higher = TEMPLATES.format(ns=namespace), LAYERS[name]
    merged = merge(LOWER, higher, "PodTemplateSpec")
    assert list(problems(merged, "PodTemplateSpec", "template")) == []
    api.do("POST", path, template("lower", LOWER), fieldValidation="Strict")
    change = {"template": patch(higher, "PodTemplateSpec")}
    theirs = api.do("PATCH", f"{path}/lower", change, "strategic-merge-patch", dryRun="All")
    ours = api.do("POST", path, template("merged", merged), dryRun="All", fieldValidation="Strict")
    assert without_order(ours["template"], "PodTemplateSpec") == without_order(theirs["template"], "PodTemplateSpec")
