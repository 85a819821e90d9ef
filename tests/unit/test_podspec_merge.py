"""The merge of two templates. tests/integration/test_pod_schema.py checks that Kubernetes merges them equally."""

import copy
from typing import Any

import pytest

from tfdist.podspec import merge

Json = dict[str, Any]

# The type, the lower template, the higher one, and the merged one.
MERGED: dict[str, tuple[str, Json, Json, Json]] = {
    "objects merge field by field": (
        "PodSpec",
        {"securityContext": {"runAsUser": 1, "fsGroup": 2}, "hostname": "a"},
        {"securityContext": {"fsGroup": 3}, "subdomain": "b"},
        {"securityContext": {"runAsUser": 1, "fsGroup": 3}, "hostname": "a", "subdomain": "b"},
    ),
    "maps merge key by key": (
        "PodSpec",
        {"nodeSelector": {"a": "1", "b": "2"}},
        {"nodeSelector": {"b": "3", "c": "4"}},
        {"nodeSelector": {"a": "1", "b": "3", "c": "4"}},
    ),
    "variables merge by name: what there is keeps its place, what is new follows": (
        "Container",
        {"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]},
        {"env": [{"name": "C", "value": "3"}, {"name": "A", "value": "4"}]},
        {"env": [{"name": "A", "value": "4"}, {"name": "B", "value": "2"}, {"name": "C", "value": "3"}]},
    ),
    "containers merge by name, and so do the lists inside": (
        "PodSpec",
        {"containers": [{"name": "tensorflow", "image": "a", "env": [{"name": "A", "value": "1"}]}]},
        {"containers": [{"name": "log", "image": "b"}, {"name": "tensorflow", "env": [{"name": "B", "value": "2"}]}]},
        {
            "containers": [
                {"name": "tensorflow", "image": "a", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]},
                {"name": "log", "image": "b"},
            ]
        },
    ),
    "mounts merge by path": (
        "Container",
        {"volumeMounts": [{"name": "a", "mountPath": "/x", "readOnly": True}]},
        {"volumeMounts": [{"name": "b", "mountPath": "/x"}, {"name": "a", "mountPath": "/y"}]},
        {"volumeMounts": [{"name": "b", "mountPath": "/x", "readOnly": True}, {"name": "a", "mountPath": "/y"}]},
    ),
    "ports merge by number": (
        "Container",
        {"ports": [{"containerPort": 1, "name": "a"}]},
        {"ports": [{"containerPort": 1, "protocol": "UDP"}, {"containerPort": 2}]},
        {"ports": [{"containerPort": 1, "name": "a", "protocol": "UDP"}, {"containerPort": 2}]},
    ),
    "ports of one number are distinguished by protocol": (
        "Container",
        {"ports": [{"containerPort": 53, "name": "t"}, {"containerPort": 53, "protocol": "UDP", "name": "u"}]},
        {"ports": [{"containerPort": 53, "protocol": "UDP", "hostPort": 5}, {"containerPort": 53, "hostPort": 6}]},
        {
            "ports": [
                {"containerPort": 53, "name": "t", "hostPort": 6},
                {"containerPort": 53, "protocol": "UDP", "name": "u", "hostPort": 5},
            ]
        },
    ),
    "a spread over zones is found by its key alone": (
        "PodSpec",
        {"topologySpreadConstraints": [{"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]},
        {"topologySpreadConstraints": [{"topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}]},
        {"topologySpreadConstraints": [{"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}]},
    ),
    "a volume of another source loses its old one": (
        "PodSpec",
        {"volumes": [{"name": "v", "emptyDir": {"medium": "Memory"}}]},
        {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]},
        {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]},
    ),
    "a volume of the same source merges": (
        "PodSpec",
        {"volumes": [{"name": "v", "emptyDir": {"medium": "Memory"}}]},
        {"volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1Gi"}}]},
        {"volumes": [{"name": "v", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}]},
    ),
    "a variable that gets a source loses its value": (
        "EnvVar",
        {"name": "A", "value": "x"},
        {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
    ),
    "a variable that is emptied loses its source": (
        "EnvVar",
        {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "A", "value": ""},
        {"name": "A", "value": ""},
    ),
    "a probe of another kind keeps its times": (
        "Probe",
        {"exec": {"command": ["a"]}, "periodSeconds": 5},
        {"httpGet": {"port": 80}},
        {"httpGet": {"port": 80}, "periodSeconds": 5},
    ),
    "a command is replaced": ("Container", {"command": ["a", "b"]}, {"command": ["c"]}, {"command": ["c"]}),
    "a list without a key is replaced, also by an empty one": (
        "PodSpec",
        {"tolerations": [{"key": "a"}]},
        {"tolerations": []},
        {"tolerations": []},
    ),
    "an empty list adds nothing to one that merges": (
        "PodSpec",
        {"imagePullSecrets": [{"name": "a"}]},
        {"imagePullSecrets": []},
        {"imagePullSecrets": [{"name": "a"}]},
    ),
    "envFrom is replaced": (
        "Container",
        {"envFrom": [{"secretRef": {"name": "a"}}]},
        {"envFrom": [{"configMapRef": {"name": "b"}}]},
        {"envFrom": [{"configMapRef": {"name": "b"}}]},
    ),
    "finalizers are joined": (
        "ObjectMeta",
        {"finalizers": ["a/x", "b/y"]},
        {"finalizers": ["c/z", "a/x"]},
        {"finalizers": ["a/x", "b/y", "c/z"]},
    ),
}

MALFORMED: list[tuple[Json, Json]] = [
    ({"containers": [{"name": "a"}]}, {"containers": ["a"]}),
    ({"containers": [{"name": "a"}]}, {"containers": [{"name": ["a"]}]}),
    ({"containers": [{"name": "a"}]}, {"containers": {"a": {}}}),
    ({"containers": [{"image": "a"}]}, {"containers": [{"name": "a"}]}),
    ({"nodeSelector": {"a": "b"}}, {"nodeSelector": None}),
    ({"frobnicate": {"a": 1}}, {"frobnicate": {"b": 2}}),
]


@pytest.mark.parametrize("name", MERGED)
def test_merging(name: str) -> None:
    type_name, lower, higher, expected = MERGED[name]
    before = copy.deepcopy((lower, higher))
    assert merge(lower, higher, type_name) == expected
    assert (lower, higher) == before


@pytest.mark.parametrize(("lower", "higher"), MALFORMED)
def test_a_malformed_value_replaces_the_other_and_nothing_is_raised(lower: Json, higher: Json) -> None:
    assert merge(lower, higher, "PodSpec") == higher


def test_the_result_shares_no_object_with_the_merged_templates() -> None:
    lower = {"containers": [{"name": "a", "args": ["x"]}], "tolerations": [{"key": "a"}]}
    higher = {"containers": [{"name": "b", "args": ["y"]}], "nodeSelector": {"a": "b"}}
    before = copy.deepcopy((lower, higher))
    made = merge(lower, higher, "PodSpec")
    for container in made["containers"]:
        container["args"].append("z")
    made["tolerations"][0]["key"] = made["nodeSelector"]["a"] = "z"
    assert (lower, higher) == before


def test_of_three_layers_the_middle_one_may_clear_a_source_of_the_lowest() -> None:
    memory: Json = {"name": "v", "emptyDir": {"medium": "Memory"}}
    claim: Json = {"name": "v", "nfs": {}}
    plain: Json = {"name": "v", "emptyDir": {}}
    assert merge(merge(memory, claim, "Volume"), plain, "Volume") == plain
