"""The check of a pod template: the errors that it finds, their messages, and what it leaves to Kubernetes."""

import json
from typing import Any

import pytest

from tfdist.podspec import problems, schema
from tfdist.podspec.unions import union_members

CONTAINER = {"name": "c"}

# The value, its type, the path of the error, and its message.
ERRORS: dict[str, tuple[Any, str, str, str]] = {
    "a misspelt field": (
        CONTAINER | {"imagPullPolicy": "Always"},
        "Container",
        "at.imagPullPolicy",
        "unknown field; did you mean imagePullPolicy?",
    ),
    "a field of another type": (
        CONTAINER | {"nodeSelector": {}},
        "Container",
        "at.nodeSelector",
        "unknown field; it belongs to PodSpec, not to Container",
    ),
    "a field of no type": (
        CONTAINER | {"frobnicate": [1]},
        "Container",
        "at.frobnicate",
        "unknown field; Container has no such field, remove it",
    ),
    "a patch directive": (
        CONTAINER | {"$patch": "delete"},
        "Container",
        "at['$patch']",
        "unknown field; Container has no such field, remove it",
    ),
    "a text where a list is": (CONTAINER | {"args": "x"}, "Container", "at.args", 'Invalid value: "x": must be a list'),
    "a list where an object is": (
        {"metadata": []},
        "PodTemplateSpec",
        "at.metadata",
        "Invalid value: list: must be an object",
    ),
    "a list where a map is": (
        {"labels": []},
        "ObjectMeta",
        "at.labels",
        "Invalid value: list: must be an object",
    ),
    "a number where a text is": (
        {"name": "A", "value": 8080},
        "EnvVar",
        "at.value",
        "Invalid value: 8080: must be a string; quote it",
    ),
    "true where a text is": (
        {"labels": {"a.b/c": True}},
        "ObjectMeta",
        "at.labels['a.b/c']",
        "Invalid value: true: must be a string; quote it",
    ),
    "a text where a number is": (
        {"containerPort": "x"},
        "ContainerPort",
        "at.containerPort",
        'Invalid value: "x": must be an integer',
    ),
    "true where a number is": (
        {"containerPort": True},
        "ContainerPort",
        "at.containerPort",
        "Invalid value: true: must be an integer",
    ),
    "a number of too many bits": (
        {"containerPort": 2**31},
        "ContainerPort",
        "at.containerPort",
        "Invalid value: 2147483648: must fit into 32 bits",
    ),
    "a text where a truth is": (
        CONTAINER | {"tty": "yes"},
        "Container",
        "at.tty",
        'Invalid value: "yes": must be true or false, without quotes',
    ),
    "a fraction where a port is": (
        {"port": 1.5},
        "HTTPGetAction",
        "at.port",
        "Invalid value: 1.5: must be an integer or a string",
    ),
    "no quantity": (
        {"limits": {"memory": "4GB"}},
        "ResourceRequirements",
        "at.limits.memory",
        'Invalid value: "4GB": must be a quantity, such as 2, 500m or 4Gi; did you mean 4G?',
    ),
    "a list where a quantity is": (
        {"limits": {"nvidia.com/gpu": []}},
        "ResourceRequirements",
        "at.limits['nvidia.com/gpu']",
        "Invalid value: list: must be a quantity, such as 2, 500m or 4Gi",
    ),
    "no time": (
        {"creationTimestamp": "today"},
        "ObjectMeta",
        "at.creationTimestamp",
        'Invalid value: "today": must be an RFC 3339 time, such as 2030-01-01T00:00:00Z',
    ),
    "a value of the wrong case": (
        CONTAINER | {"imagePullPolicy": "always"},
        "Container",
        "at.imagePullPolicy",
        'Unsupported value: "always": supported values: Always, IfNotPresent, Never; did you mean Always?',
    ),
    "an empty line": (
        CONTAINER | {"env": None},
        "Container",
        "at.env",
        "must not be null; set a value, or remove the field",
    ),
    "an empty item": (
        CONTAINER | {"env": [None]},
        "Container",
        "at.env[0]",
        "must not be null; set a value, or remove the field",
    ),
    "nothing at all": (None, "PodSpec", "at", "must not be null; set a value, or remove the field"),
    "a required field left out": ({"value": "x"}, "EnvVar", "at.name", "Required value"),
    "an item without its merge key": (
        {"containers": [], "imagePullSecrets": [{}]},
        "PodSpec",
        "at.imagePullSecrets[0].name",
        "Required value: items of the list are merged by it",
    ),
    "two variables of one name": (
        CONTAINER | {"env": [{"name": "A"}, {"name": "B"}, {"name": "A"}]},
        "Container",
        "at.env[2].name",
        'Duplicate value: "A": also in at.env[0]',
    ),
    "two containers of one name": (
        {"containers": [CONTAINER, CONTAINER]},
        "PodSpec",
        "at.containers[1].name",
        'Duplicate value: "c": also in at.containers[0]',
    ),
    "one port twice, once by default": (
        CONTAINER | {"ports": [{"containerPort": 53}, {"containerPort": 53, "protocol": "TCP"}]},
        "Container",
        "at.ports[1].containerPort",
        'Duplicate value: "53, TCP": also in at.ports[0]',
    ),
    "a volume with two sources": (
        {"name": "v", "emptyDir": {}, "hostPath": {"path": "/x"}},
        "Volume",
        "at",
        "Forbidden: emptyDir and hostPath are mutually exclusive; keep one of them",
    ),
    "a volume with no source": (
        {"name": "v"},
        "Volume",
        "at",
        "Required value: set one of configMap, emptyDir, persistentVolumeClaim or secret",
    ),
    "a volume whose source is empty": (
        {"name": "v", "emptyDir": None},
        "Volume",
        "at.emptyDir",
        "must not be null; set a value, or remove the field",
    ),
    "a variable with a value and a source": (
        {"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        "EnvVar",
        "at",
        "Forbidden: value and valueFrom are mutually exclusive; keep one of them",
    ),
}

FINE: dict[str, tuple[Any, str]] = {
    "one port number of two protocols": (
        CONTAINER | {"ports": [{"containerPort": 53}, {"containerPort": 53, "protocol": "UDP"}]},
        "Container",
    ),
    "a port by name and by number": (
        CONTAINER | {"livenessProbe": {"httpGet": {"port": "web"}}, "readinessProbe": {"tcpSocket": {"port": 80}}},
        "Container",
    ),
    "quantities as numbers": ({"limits": {"cpu": 0.5, "memory": "1Gi", "nvidia.com/gpu": 1}}, "ResourceRequirements"),
    "an empty text that a template left": ({"key": "a", "effect": ""}, "Toleration"),
    "an empty value with a source": (
        {"name": "A", "value": "", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
        "EnvVar",
    ),
    "one toleration twice, which is no map": (
        {"containers": [], "tolerations": [{"key": "a"}, {"key": "a"}]},
        "PodSpec",
    ),
}

OVERLAY = {
    "spec": {
        "containers": [{"name": "tensorflow", "ports": [{"containerPort": 1}]}],
        "volumes": [{"name": "data"}],
        "securityContext": {"seccompProfile": {"localhostProfile": "p"}},
    }
}


def found(value: Any, type_name: str, **options: Any) -> list[tuple[str, str]]:
    return list(problems(value, type_name, "at", **options))


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_is_reported_once_with_its_path_and_the_remedy(name: str) -> None:
    value, type_name, path, text = ERRORS[name]
    assert found(value, type_name) == [(path, text)]


@pytest.mark.parametrize("name", FINE)
def test_a_value_that_kubernetes_accepts_is_not_an_error(name: str) -> None:
    value, type_name = FINE[name]
    assert found(value, type_name) == []


def test_every_error_is_reported_not_only_the_first() -> None:
    container = {"nam": "c", "env": [{"name": "A", "value": 1}], "resources": {"limits": {"cpu": "many"}}}
    assert [path for path, _ in found({"spec": {"containers": [container], "hostIPC": "no"}}, "PodTemplateSpec")] == [
        "at.spec.containers[0].nam",
        "at.spec.containers[0].env[0].value",
        "at.spec.containers[0].resources.limits.cpu",
        "at.spec.containers[0].name",
        "at.spec.hostIPC",
    ]


def test_an_overlay_needs_no_required_fields_of_the_types_named_partial() -> None:
    assert {path for path, _ in found(OVERLAY, "PodTemplateSpec")} == {
        "at.spec.securityContext.seccompProfile.type",
        "at.spec.volumes[0]",
    }
    assert found(OVERLAY, "PodTemplateSpec", partial={"SeccompProfile", "Volume"}) == []
    assert found({"nodeName": "n"}, "PodSpec", partial={"PodSpec"}) == []


def test_an_item_of_an_overlay_must_have_its_merge_key() -> None:
    everything = frozenset(schema.types())
    assert found({"containers": [{"image": "x"}]}, "PodSpec", partial=everything) == [
        ("at.containers[0].name", "Required value: items of the list are merged by it")
    ]


def test_a_path_may_be_empty() -> None:
    assert [path for path, _ in problems({"nam": "x"}, "EnvVar", "")] == ["nam", "name"]


def test_messages_about_long_values_fit_a_line() -> None:
    huge = {"containerPort": 10**5000}
    value = {"x" * 5000: "y" * 5000, "image": 10**5000, 7: None, "ports": [huge, huge]}
    assert all(len(path) + len(text) < 250 for path, text in found(value, "Container"))


def test_a_type_that_no_pod_has_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        list(problems({}, "Deployment", "at"))


def test_every_type_that_is_named_is_described() -> None:
    named = {field.type for kind in schema.types().values() for field in kind.fields.values()}
    assert named <= schema.types().keys() | schema.PRIMITIVES


def test_the_description_is_small_and_one_type_is_one_line() -> None:
    text = (schema._FILE).read_text()
    assert len(text) < 60_000
    assert len(text.splitlines()) == len(json.loads(text)["types"]) + 2
    assert json.loads(text)["kubernetes"] == "1.37"


def test_all_choices_are_fields_and_cover_what_kubernetes_itself_replaces_as_a_whole() -> None:
    for name, kind in schema.types().items():
        assert union_members(name) <= kind.fields.keys()
        for field in kind.fields.values():
            if field.retain_keys:
                assert union_members(field.type) == schema.types()[field.type].fields.keys() - {field.key}
