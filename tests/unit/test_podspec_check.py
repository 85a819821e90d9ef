"""What the check of a pod template finds, in which words, and what it leaves to Kubernetes."""

import json
from typing import Any

import pytest

from tfdist.podspec import problems, schema
from tfdist.podspec.one_of import choices

CONTAINER = {"name": "c"}

# What is given, as which type: where the mistake is, and what is said of it.
MISTAKES: dict[str, tuple[Any, str, str, str]] = {
    "a misspelt field": (
        CONTAINER | {"imagPullPolicy": "Always"},
        "Container",
        "at.imagPullPolicy",
        "unknown field (given the text 'Always'); did you mean imagePullPolicy?",
    ),
    "a field of another type": (
        CONTAINER | {"nodeSelector": {}},
        "Container",
        "at.nodeSelector",
        "unknown field (given an object); it belongs to PodSpec, not to Container",
    ),
    "a field of no type": (
        CONTAINER | {"frobnicate": [1]},
        "Container",
        "at.frobnicate",
        "unknown field (given a list); Container has no such field, remove it",
    ),
    "a patch directive": (
        CONTAINER | {"$patch": "delete"},
        "Container",
        "at[$patch]",
        "unknown field (given the text 'delete'); Container has no such field, remove it",
    ),
    "a text where a list is": (CONTAINER | {"args": "x"}, "Container", "at.args", "must be a list, got the text 'x'"),
    "a list where an object is": ({"metadata": []}, "PodTemplateSpec", "at.metadata", "must be an object, got a list"),
    "a list where a map is": (
        {"labels": []},
        "ObjectMeta",
        "at.labels",
        "must be an object, got a list",
    ),
    "a number where a text is": (
        {"name": "A", "value": 8080},
        "EnvVar",
        "at.value",
        "must be a text, got the number 8080: put it in quotes",
    ),
    "true where a text is": (
        {"labels": {"a.b/c": True}},
        "ObjectMeta",
        "at.labels[a.b/c]",
        "must be a text, got true: put it in quotes",
    ),
    "a text where a number is": (
        {"containerPort": "x"},
        "ContainerPort",
        "at.containerPort",
        "must be an integer, got the text 'x'",
    ),
    "true where a number is": (
        {"containerPort": True},
        "ContainerPort",
        "at.containerPort",
        "must be an integer, got true",
    ),
    "a number of too many bits": (
        {"containerPort": 2**31},
        "ContainerPort",
        "at.containerPort",
        "must fit into 32 bits, got the number 2147483648",
    ),
    "a text where a truth is": (
        CONTAINER | {"tty": "yes"},
        "Container",
        "at.tty",
        "must be true or false, got the text 'yes'",
    ),
    "a fraction where a port is": (
        {"port": 1.5},
        "HTTPGetAction",
        "at.port",
        "must be an integer or a text, got the number 1.5",
    ),
    "no quantity": (
        {"limits": {"memory": "4GB"}},
        "ResourceRequirements",
        "at.limits.memory",
        "'4GB' is no quantity; did you mean '4G'?",
    ),
    "a list where a quantity is": (
        {"limits": {"nvidia.com/gpu": []}},
        "ResourceRequirements",
        "at.limits[nvidia.com/gpu]",
        "must be a quantity such as 2, 500m or 4Gi, got a list",
    ),
    "no time": (
        {"creationTimestamp": "today"},
        "ObjectMeta",
        "at.creationTimestamp",
        "must be a time such as 2030-01-01T00:00:00Z, got the text 'today'",
    ),
    "a value of the wrong case": (
        CONTAINER | {"imagePullPolicy": "always"},
        "Container",
        "at.imagePullPolicy",
        "must be one of Always, IfNotPresent, Never, got the text 'always'; did you mean Always?",
    ),
    "an empty line": (CONTAINER | {"env": None}, "Container", "at.env", "empty: remove the line or give a value"),
    "an empty item": (CONTAINER | {"env": [None]}, "Container", "at.env[0]", "empty: remove the line or give a value"),
    "nothing at all": (None, "PodSpec", "at", "empty: remove the line or give a value"),
    "a required field left out": ({"value": "x"}, "EnvVar", "at.name", "required, and absent"),
    "an item that cannot be told apart": (
        {"containers": [], "imagePullSecrets": [{}]},
        "PodSpec",
        "at.imagePullSecrets[0].name",
        "required, and absent: it tells the items of the list apart",
    ),
    "two variables of one name": (
        CONTAINER | {"env": [{"name": "A"}, {"name": "B"}, {"name": "A"}]},
        "Container",
        "at.env[2].name",
        "name 'A' is already in at.env[0]; keep one of them",
    ),
    "two containers of one name": (
        {"containers": [CONTAINER, CONTAINER]},
        "PodSpec",
        "at.containers[1].name",
        "name 'c' is already in at.containers[0]; keep one of them",
    ),
    "one port twice, once by default": (
        CONTAINER | {"ports": [{"containerPort": 53}, {"containerPort": 53, "protocol": "TCP"}]},
        "Container",
        "at.ports[1].containerPort",
        "containerPort '53', protocol 'TCP' is already in at.ports[0]; keep one of them",
    ),
    "a volume with two sources": (
        {"name": "v", "emptyDir": {}, "hostPath": {"path": "/x"}},
        "Volume",
        "at",
        "names emptyDir and hostPath, which exclude each other; keep one",
    ),
    "a volume with no source": (
        {"name": "v"},
        "Volume",
        "at",
        "names nothing to use; add one of configMap, emptyDir, persistentVolumeClaim or secret",
    ),
    "a volume whose source is empty": (
        {"name": "v", "emptyDir": None},
        "Volume",
        "at.emptyDir",
        "empty: remove the line or give a value",
    ),
    "a variable with a value and a source": (
        {"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        "EnvVar",
        "at",
        "names value and valueFrom, which exclude each other; keep one",
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
    "an empty value beside a source": (
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


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_once_with_its_place_and_what_to_do(name: str) -> None:
    value, type_name, path, text = MISTAKES[name]
    assert found(value, type_name) == [(path, text)]


@pytest.mark.parametrize("name", FINE)
def test_what_kubernetes_takes_is_no_mistake(name: str) -> None:
    value, type_name = FINE[name]
    assert found(value, type_name) == []


def test_every_mistake_is_told_not_only_the_first() -> None:
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


def test_an_item_of_an_overlay_must_still_say_which_it_is() -> None:
    everything = frozenset(schema.types())
    assert found({"containers": [{"image": "x"}]}, "PodSpec", partial=everything) == [
        ("at.containers[0].name", "required, and absent: it tells the items of the list apart")
    ]


def test_a_path_may_be_empty() -> None:
    assert [path for path, _ in problems({"nam": "x"}, "EnvVar", "")] == ["nam", "name"]


def test_long_and_odd_values_stay_within_a_line() -> None:
    huge = {"containerPort": 10**5000}
    value = {"x" * 5000: "y" * 5000, "image": 10**5000, 7: None, "ports": [huge, huge]}
    assert all(len(path) + len(text) < 250 for path, text in found(value, "Container"))


def test_a_type_that_no_pod_has_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(KeyError):
        list(problems({}, "Deployment", "at"))


def test_every_type_that_is_named_is_described() -> None:
    named = {field.type for kind in schema.types().values() for field in kind.fields.values()}
    assert named <= schema.types().keys() | schema.PRIMITIVES


def test_the_description_is_small_and_one_type_is_one_line() -> None:
    text = (schema._FILE).read_text()
    assert len(text) < 60_000
    assert len(text.splitlines()) == len(json.loads(text)["types"]) + 2
    assert schema.kubernetes_version() == "1.37"


def test_all_choices_are_fields_and_cover_what_kubernetes_itself_replaces_as_a_whole() -> None:
    for name, kind in schema.types().items():
        assert choices(name) <= kind.fields.keys()
        for field in kind.fields.values():
            if field.retain_keys:
                assert choices(field.type) == schema.types()[field.type].fields.keys() - {field.key}
