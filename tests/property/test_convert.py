"""The pods of a converted TFJob are those of the TFJob, whatever its replica types have in common."""

from copy import deepcopy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from support import effective
from support.tfjobs import replica, tfjob

from tfdist.convert import convert

Json = dict[str, Any]

ROLES = {"Chief": "chief", "Worker": "worker", "PS": "ps", "Evaluator": "evaluator"}


def some(*values: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from(values)


def keyed(key: str, *items: Json) -> st.SearchStrategy[list[Json]]:
    """Return lists of some of the items in any order, none with the same key twice."""
    return st.lists(st.sampled_from(items), unique_by=lambda item: item[key], max_size=4)


PORTS = (
    {"name": "tfjob-port", "containerPort": 2222},
    {"name": "tfjob-port", "containerPort": 3333},
    {"name": "web", "containerPort": 80, "protocol": "TCP"},
)
CONTAINER: dict[str, st.SearchStrategy[Any]] = {
    "image": some("one", "two"),
    "command": some(["a"], ["b"], ["x" * 5000]),
    "args": some(["a"], ["b", "c"]),
    "workingDir": some("/a", "/b"),
    "imagePullPolicy": some("Always", "Never"),
    "env": keyed("name", *({"name": n, "value": v} for n in "ABC" for v in ("1", "2"))),
    "envFrom": st.lists(some({"configMapRef": {"name": "a"}}, {"secretRef": {"name": "b"}}), max_size=2),
    "resources": some({"limits": {"cpu": 1}}, {"limits": {"cpu": 1}, "requests": {"memory": "1Gi"}}),
    "volumeMounts": keyed("mountPath", *({"name": n, "mountPath": f"/{n}"} for n in ("data", "logs"))),
    "ports": keyed("name", *PORTS),
    "securityContext": some({"runAsUser": 0}, {"capabilities": {"add": ["IPC_LOCK"]}}, {"privileged": True}),
    "lifecycle": some({"preStop": {"exec": {"command": ["save"]}}}),
}
VOLUMES: list[Json] = [{"name": "data", "emptyDir": {}}, {"name": "logs", "hostPath": {"path": "/l"}}]
POD: dict[str, st.SearchStrategy[Any]] = {
    "initContainers": keyed("name", *({"name": n, "image": i} for n in "ab" for i in ("one", "two"))),
    "nodeSelector": some({"pool": "a"}, {"pool": "a", "disk": "b"}),
    "tolerations": st.lists(some({"operator": "Exists"}, {"key": "a", "operator": "Exists"}), max_size=2),
    "securityContext": some({"fsGroup": 1}, {"runAsNonRoot": True}),
    "imagePullSecrets": keyed("name", {"name": "a"}, {"name": "b"}),
    "restartPolicy": some("Never", "Always"),
    "hostNetwork": some(True),
}
METADATA: dict[str, st.SearchStrategy[Any]] = {
    "labels": some({"a": "b"}, {"a": "c"}, {"a": "b", "d": "e"}),
    "annotations": some({}, {"f": "g"}),
}
SIDECARS = keyed("name", *({"name": n, "image": i} for n in ("proxy", "logger") for i in ("one", "two")))


@st.composite
def types(draw: st.DrawFn) -> Json:
    made = {}
    for key in draw(st.lists(some(*ROLES), unique=True, min_size=1).filter({"Chief", "Worker"}.intersection)):
        chosen = replica(1, draw(st.fixed_dictionaries({}, optional=POD)))
        template = chosen["template"]
        template["spec"]["containers"][0] |= draw(st.fixed_dictionaries({}, optional=CONTAINER))
        template["spec"]["containers"] += draw(SIDECARS)
        template["spec"]["volumes"] = draw(st.permutations(VOLUMES))
        template["metadata"] = draw(st.fixed_dictionaries({}, optional=METADATA))
        made[key] = deepcopy(chosen)
    return made


@given(types())
@settings(max_examples=200)
def test_the_pods_of_every_role_are_unchanged(drawn: Json) -> None:
    made = convert(tfjob(drawn)).manifest
    for key, replicas in drawn.items():
        assert effective.of_role(made, ROLES[key]) == effective.of_tfjob(replicas["template"])
