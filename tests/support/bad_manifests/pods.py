"""Mistakes in the short forms of a container: variables, mounts, volumes, amounts."""

from typing import Any, Final

from support.bad_manifests.case import ENUM, LONG, MANY, PATTERN, SHORT, TWICE, TYPE, Bad, field, pod
from support.factories import CHECKPOINT

VOLUMES: Final = [{"name": "data", "emptyDir": {}}]
MOUNTS: Final = [{"name": "data", "mountPath": "/data"}]
MOUNTED: Final[dict[str, Any]] = {"volumes": VOLUMES, "volumeMounts": MOUNTS}
AMOUNT: Final = "write an amount, such as 2, 500m or 16Gi, fractions in quotes"
GPU: Final = "nvidia.com/gpu"
STANDBY: Final[dict[str, Any]] = {"runPolicy": {"standby": True}, "checkpoint": CHECKPOINT}


def gpus(number: Any) -> dict[str, Any]:
    return {"resources": {"limits": {GPU: number}}}


def mount(name: str, path: str, value: Any, says: str, server: str) -> Bad:
    return field(name, f"volumeMounts[0].{path}", value, says, server, **MOUNTED)


_VARIABLES: Final = (
    field("a variable without a letter", "env[0].name", "", "write at least 1 character; got ''", SHORT),
    field("a variable with its value in the name", "env[0].name", "A=1", "write a name without =; got 'A=1'", PATTERN),
    field("a variable twice", "env", [{"name": "A", "value": "1"}, {"name": "A"}], "items 0 and 1 are both 'A'", TWICE),
    field(
        "a value that is a file",
        "env[0].value",
        "x" * 32769,
        "write at most 32768 characters",
        LONG,
        env=[{"name": "A"}],
    ),
    field(
        "a source by its name", "env[0].valueFrom", "s", "must be an object, got the text", TYPE, env=[{"name": "A"}]
    ),
    field("too many variables", "env", [{"name": f"A{i}"} for i in range(257)], "write at most 256 entries", MANY),
    pod(
        "a typo in a source of a variable",
        ".env[0].valueFrom.secretkeyRef",
        "unknown field",
        env=[{"name": "A", "valueFrom": {"secretkeyRef": {"name": "s", "key": "k"}}}],
    ),
    pod(
        "a secret's variable without a key",
        ".env[0].valueFrom.secretKeyRef.key",
        "required, and absent",
        env=[{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s"}}}],
    ),
    field(
        "variables from too many places", "envFrom", [{"configMapRef": {"name": "m"}}] * 65, "write at most 64", MANY
    ),
    field(
        "an empty prefix",
        "envFrom[0].prefix",
        "",
        "write at least 1 char",
        SHORT,
        envFrom=[{"configMapRef": {"name": "m"}}],
    ),
    pod(
        "a typo in variables from elsewhere",
        ".envFrom[0].configMap",
        "unknown field",
        envFrom=[{"configMap": {"name": "m"}}],
    ),
    pod(
        "variables from two places in one",
        ".envFrom[0]",
        "names configMapRef and secretRef, which exclude each other",
        envFrom=[{"configMapRef": {"name": "m"}, "secretRef": {"name": "s"}}],
    ),
)

_MOUNTS: Final = (
    mount("a mount of no volume", "name", "", "write at least 1 character; got ''", SHORT),
    mount("a mount nowhere", "mountPath", "", "write at least 1 character; got ''", SHORT),
    mount("a mount of Docker's kind", "mountPath", "/srv:/data", "write a path without :; got '/srv:/data'", PATTERN),
    mount("a path in a volume that is too long", "subPath", "x" * 4097, "write at most 4096 characters", LONG),
    mount("a pattern of a path that is too long", "subPathExpr", "x" * 4097, "write at most 4096 characters", LONG),
    mount("a mount read-only by a word", "readOnly", "yes", "write true or false, without quotes; got 'yes'", TYPE),
    mount("mounts seen in one direction", "mountPropagation", "Shared", "write 'None', 'HostToContainer' or", ENUM),
    mount("mounts below read-only by a boolean", "recursiveReadOnly", True, "write 'Disabled', 'IfPossible' or", ENUM),
    field(
        "two mounts at one path",
        "volumeMounts",
        MOUNTS * 2,
        "items 0 and 1 are both '/data'; keep one",
        TWICE,
        volumes=VOLUMES,
    ),
    field(
        "too many mounts",
        "volumeMounts",
        [{"name": "data", "mountPath": f"/{i}"} for i in range(65)],
        "write at most 64",
        MANY,
        volumes=VOLUMES,
    ),
    pod(
        "a mount of a missing volume",
        ".volumeMounts[0].name",
        "no volume is called 'dta'; there are data: correct the name, or add it",
        volumes=VOLUMES,
        volumeMounts=[{"name": "dta", "mountPath": "/data"}],
    ),
    pod(
        "a role's mount of a missing volume",
        ".worker.volumeMounts[0].name",
        "no volume is called 'x'; there is none: correct the name, or add it",
        worker={"volumeMounts": [{"name": "x", "mountPath": "/x"}]},
    ),
)

_VOLUMES: Final = (
    field(
        "a volume with a capital",
        "volumes[0].name",
        "Data",
        "write small letters, digits and dashes, no",
        PATTERN,
        volumes=[{"emptyDir": {}}],
    ),
    field("a volume twice", "volumes", VOLUMES * 2, "items 0 and 1 are both 'data'; keep one", TWICE),
    field(
        "too many volumes",
        "volumes",
        [{"name": f"v{i}", "emptyDir": {}} for i in range(65)],
        "write at most 64 entries",
        MANY,
    ),
    pod(
        "a typo in a source of a volume",
        ".volumes[0].persistentVolumeClaims",
        "unknown field (given an object); did you mean persistentVolumeClaim?",
        volumes=[{"name": "v", "persistentVolumeClaims": {"claimName": "c"}}],
    ),
    pod(
        "a typo within a source of a volume",
        ".volumes[0].persistentVolumeClaim.claim",
        "unknown field (given the text 'c')",
        volumes=[{"name": "v", "persistentVolumeClaim": {"claim": "c", "claimName": "c"}}],
    ),
    pod(
        "a volume with two sources",
        ".volumes[0]",
        "names emptyDir and hostPath, which exclude each other; keep one",
        volumes=[{"name": "v", "emptyDir": {}, "hostPath": {"path": "/srv"}}],
    ),
    pod(
        "a volume of nothing",
        ".volumes[0]",
        "names nothing to use; add one of configMap, emptyDir",
        volumes=[{"name": "v"}],
    ),
    pod(
        "a volume of the controller's name",
        ".volumes[0].name",
        "names that begin with tfdist- are the controller's; choose",
        volumes=[{"name": "tfdist-tmp", "emptyDir": {}}],
    ),
    pod(
        "a typo in the volume of checkpoints",
        ".checkpoint.volume.pvc",
        "unknown field",
        checkpoint={"directory": "/ckpt", "volume": {"pvc": {"claimName": "c"}}},
    ),
    pod(
        "a name for the volume of checkpoints",
        ".checkpoint.volume.name",
        "the controller names this volume; remove the name",
        checkpoint={**CHECKPOINT, "volume": {**CHECKPOINT["volume"], "name": "ckpt"}},
    ),
)

_AMOUNTS: Final = (
    field("memory in words", "resources.limits.memory", "16 GB", f"{AMOUNT}; got '16 GB'", PATTERN),
    field("a negative request", "resources.requests.cpu", "-1", f"{AMOUNT}; got '-1'", PATTERN),
    field(
        "less than no CPU", "resources.requests.cpu", -1, f"{AMOUNT}; got -1", "should be greater than or equal to 0"
    ),
    field("half a CPU without quotes", "resources.limits.cpu", 0.5, f"{AMOUNT}; got 0.5", "Invalid value"),
    field("an amount beyond all bounds", "resources.limits.cpu", "1e999", f"{AMOUNT}; got '1e999'", PATTERN),
    field("an amount as a list", "resources.limits.cpu", [1], f"{AMOUNT}; got [1]", "Invalid value"),
    field("an amount of too many digits", "resources.limits.cpu", "0" * 65, f"{AMOUNT}; got '000", LONG),
    field("a device twice", "resources.claims", [{"name": "d"}] * 2, "items 0 and 1 are both 'd'; keep one", TWICE),
    field("a device without a name", "resources.claims[0].name", "", "write at least 1 character; got ''", SHORT),
    field(
        "a request of a device without a name",
        "resources.claims[0].request",
        "",
        "write at least 1",
        SHORT,
        resources={"claims": [{"name": "d"}]},
    ),
    field("too many resources", "resources.limits", {f"r{i}": 1 for i in range(33)}, "write at most 32 entries", MANY),
    field(
        "too many resources to ask for", "resources.requests", {f"r{i}": 1 for i in range(33)}, "write at most 32", MANY
    ),
    pod(
        "a resource with a space",
        ".resources.limits['nvidia gpu']",
        "the key is not well-formed: write a name such as cpu",
        resources={"limits": {"nvidia gpu": 1}},
    ),
    pod(
        "a request above its limit",
        ".resources.requests.cpu",
        "2 is more than the limit, 500m: lower the request or raise the limit",
        resources={"requests": {"cpu": 2}, "limits": {"cpu": "500m"}},
    ),
    pod(
        "a request of the job above the limit of a role",
        ".resources.requests.memory",
        "2Gi is more than the limit, 1G",
        resources={"requests": {"memory": "2Gi"}},
        worker={"resources": {"limits": {"memory": "1G"}}},
    ),
    pod(
        "a chief without a worker's GPU",
        ".chief.resources.limits",
        "the chief has 0 GPUs and each worker 1",
        chief={},
        worker={"replicas": 2, **gpus(1)},
    ),
    pod(
        "a chief with more GPUs than a worker",
        ".chief.resources.limits",
        "the chief has 4 GPUs and each worker 2",
        chief=gpus("4"),
        **gpus(2),
    ),
    pod("a GPU for two programs", ".runPolicy.standby", "a GPU of worker has no memory", **STANDBY, **gpus(1)),
    pod(
        "a reserve of programs that do not wait",
        ".runPolicy.standby",
        "worker has a command of its own, and only the bundled trainer can wait in reserve",
        **STANDBY,
        command=["tfdist-launch", "python", "train.py"],
    ),
)

CASES: Final[tuple[Bad, ...]] = (*_VARIABLES, *_MOUNTS, *_VOLUMES, *_AMOUNTS)
