"""TFJobs made by chance."""

from copy import deepcopy
from typing import Any

from hypothesis import strategies as st

from support.tfjobs import replica

Json = dict[str, Any]

ROLES = {"Chief": "chief", "Worker": "worker", "PS": "ps", "Evaluator": "evaluator"}


def some(*values: Any) -> st.SearchStrategy[Any]:
    """Return one of the values."""
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
    "securityContext": some(
        {"runAsUser": 0},
        {"privileged": True},
        {"allowPrivilegeEscalation": False},
        *({"capabilities": {"add": [name], "drop": ["ALL"]}} for name in ("IPC_LOCK", "SYS_ADMIN", "CAP_SYS_ADMIN")),
    ),
    "lifecycle": some(
        {"preStop": {"exec": {"command": ["save"]}}}, {"preStop": {"httpGet": {"port": "tfjob-port", "path": "/"}}}
    ),
    "readinessProbe": some({"tcpSocket": {"port": "tfjob-port"}}, {"httpGet": {"port": 2222}}),
}
VOLUMES: list[Json] = [{"name": "data", "emptyDir": {}}, {"name": "logs", "hostPath": {"path": "/l"}}]
POD: dict[str, st.SearchStrategy[Any]] = {
    "initContainers": keyed("name", *({"name": n, "image": i} for n in "ab" for i in ("one", "two"))),
    "nodeSelector": some({"pool": "a"}, {"pool": "a", "disk": "b"}),
    "tolerations": st.lists(some({"operator": "Exists"}, {"key": "a", "operator": "Exists"}), max_size=2),
    "securityContext": some({"fsGroup": 1}, {"runAsNonRoot": True}, {"runAsUser": 0}),
    "imagePullSecrets": keyed("name", {"name": "a"}, {"name": "b"}),
    "restartPolicy": some("Never", "Always"),
    "hostNetwork": some(True),
    "hostPID": some(True),
    "shareProcessNamespace": some(True),
}
METADATA: dict[str, st.SearchStrategy[Any]] = {
    "labels": some({"a": "b"}, {"a": "c"}, {"a": "b", "d": "e"}),
    "annotations": some({}, {"f": "g"}),
}
SIDECAR_PARTS: list[Json] = [
    {},
    {"ports": [{"containerPort": 8790}]},
    {"ports": [{"containerPort": 2222}]},
    {"securityContext": {"privileged": True}},
]
SIDECARS = keyed("name", *({"name": n, "image": "one"} | part for n in ("proxy", "logger") for part in SIDECAR_PARTS))


@st.composite
def replica_types(draw: st.DrawFn) -> Json:
    """Return the replica types of a valid TFJob, with the parts of pods that the conversion moves or TFDist adds to."""
    types = {}
    for key in draw(st.lists(some(*ROLES), unique=True, min_size=1).filter({"Chief", "Worker"}.intersection)):
        chosen = replica(1, draw(st.fixed_dictionaries({}, optional=POD)))
        template = chosen["template"]
        template["spec"]["containers"][0] |= draw(st.fixed_dictionaries({}, optional=CONTAINER))
        template["spec"]["containers"] += draw(SIDECARS)
        template["spec"]["volumes"] = draw(st.permutations(VOLUMES))
        template["metadata"] = draw(st.fixed_dictionaries({}, optional=METADATA))
        types[key] = deepcopy(chosen)
    return types
