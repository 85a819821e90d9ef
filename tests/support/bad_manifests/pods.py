"""Errors in the short forms of a container: variables, mounts, volumes, amounts."""

from typing import Any, Final

from support.bad_manifests.case import ENUM, LONG, MANY, PATTERN, SHORT, TWICE, TYPE, Bad, field, pod
from support.factories import CHECKPOINT

VOLUMES: Final = [{"name": "data", "emptyDir": {}}]
MOUNTS: Final = [{"name": "data", "mountPath": "/data"}]
MOUNTED: Final[dict[str, Any]] = {"volumes": VOLUMES, "volumeMounts": MOUNTS}
QUANTITY: Final = "must be a quantity, such as 2, 500m or 16Gi; quote fractions"
GPU: Final = "nvidia.com/gpu"
STANDBY: Final[dict[str, Any]] = {"runPolicy": {"standby": True}, "checkpoint": CHECKPOINT}


def gpus(number: Any) -> dict[str, Any]:
    return {"resources": {"limits": {GPU: number}}}


def mount(name: str, path: str, value: Any, message: str, server: str) -> Bad:
    return field(name, f"volumeMounts[0].{path}", value, message, server, **MOUNTED)


_VARIABLES: Final = (
    field("a variable without a letter", "env[0].name", "", "must have at least 1 character", SHORT),
    field("a variable with its value in the name", "env[0].name", "A=1", "must be a name without '='", PATTERN),
    field(
        "a variable twice",
        "env",
        [{"name": "A", "value": "1"}, {"name": "A"}],
        'Duplicate value: "A": items 0 and 1',
        TWICE,
    ),
    field(
        "a value that is a file",
        "env[0].value",
        "x" * 32769,
        "Too long: 32769 characters: must have at most 32768 characters",
        LONG,
        env=[{"name": "A"}],
    ),
    field("a source by its name", "env[0].valueFrom", "s", "must be an object", TYPE, env=[{"name": "A"}]),
    field(
        "too many variables",
        "env",
        [{"name": f"A{i}"} for i in range(257)],
        "Too many: 257: must have at most 256 items",
        MANY,
    ),
    pod(
        "a typo in a source of a variable",
        ".env[0].valueFrom.secretkeyRef",
        "unknown field",
        env=[{"name": "A", "valueFrom": {"secretkeyRef": {"name": "s", "key": "k"}}}],
    ),
    pod(
        "a secret's variable without a key",
        ".env[0].valueFrom.secretKeyRef.key",
        "Required value",
        env=[{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s"}}}],
    ),
    field(
        "variables from too many places",
        "envFrom",
        [{"configMapRef": {"name": "m"}}] * 65,
        "Too many: 65: must have at most 64 items",
        MANY,
    ),
    field(
        "an empty prefix",
        "envFrom[0].prefix",
        "",
        "must have at least 1 character",
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
        "Forbidden: configMapRef and secretRef are mutually exclusive; keep one of them",
        envFrom=[{"configMapRef": {"name": "m"}, "secretRef": {"name": "s"}}],
    ),
)

_MOUNTS: Final = (
    mount("a mount of no volume", "name", "", "must have at least 1 character", SHORT),
    mount("a mount nowhere", "mountPath", "", "must have at least 1 character", SHORT),
    mount("a mount of Docker's kind", "mountPath", "/srv:/data", "must be a path without ':'", PATTERN),
    mount(
        "a path in a volume that is too long",
        "subPath",
        "x" * 4097,
        "Too long: 4097 characters: must have at most 4096 characters",
        LONG,
    ),
    mount(
        "a pattern of a path that is too long",
        "subPathExpr",
        "x" * 4097,
        "Too long: 4097 characters: must have at most 4096 characters",
        LONG,
    ),
    mount("a mount read-only by a word", "readOnly", "yes", "must be true or false, without quotes", TYPE),
    mount(
        "mounts seen in one direction",
        "mountPropagation",
        "Shared",
        'Unsupported value: "Shared": supported values: None, HostToContainer, Bidirectional',
        ENUM,
    ),
    mount(
        "mounts below read-only by a boolean",
        "recursiveReadOnly",
        True,
        "Unsupported value: true: supported values: Disabled, IfPossible, Enabled",
        ENUM,
    ),
    field(
        "two mounts at one path",
        "volumeMounts",
        MOUNTS * 2,
        'Duplicate value: "/data": items 0 and 1',
        TWICE,
        volumes=VOLUMES,
    ),
    field(
        "too many mounts",
        "volumeMounts",
        [{"name": "data", "mountPath": f"/{i}"} for i in range(65)],
        "Too many: 65: must have at most 64 items",
        MANY,
        volumes=VOLUMES,
    ),
    pod(
        "a mount of a missing volume",
        ".volumeMounts[0].name",
        "no volume has this name, the pod has data; correct the name, or add it to volumes",
        volumes=VOLUMES,
        volumeMounts=[{"name": "dta", "mountPath": "/data"}],
    ),
    pod(
        "a role's mount of a missing volume",
        ".worker.volumeMounts[0].name",
        "no volume has this name, the pod has none; correct the name, or add it to volumes",
        worker={"volumeMounts": [{"name": "x", "mountPath": "/x"}]},
    ),
)

_VOLUMES: Final = (
    field(
        "a volume with a capital",
        "volumes[0].name",
        "Data",
        "must be a DNS label: lower case letters, digits and '-', with a letter or digit first and last",
        PATTERN,
        volumes=[{"emptyDir": {}}],
    ),
    field("a volume twice", "volumes", VOLUMES * 2, 'Duplicate value: "data": items 0 and 1', TWICE),
    field(
        "too many volumes",
        "volumes",
        [{"name": f"v{i}", "emptyDir": {}} for i in range(65)],
        "Too many: 65: must have at most 64 items",
        MANY,
    ),
    pod(
        "a typo in a source of a volume",
        ".volumes[0].persistentVolumeClaims",
        "unknown field; did you mean persistentVolumeClaim?",
        volumes=[{"name": "v", "persistentVolumeClaims": {"claimName": "c"}}],
    ),
    pod(
        "a typo within a source of a volume",
        ".volumes[0].persistentVolumeClaim.claim",
        "unknown field; did you mean claimName?",
        volumes=[{"name": "v", "persistentVolumeClaim": {"claim": "c", "claimName": "c"}}],
    ),
    pod(
        "a volume with two sources",
        ".volumes[0]",
        "Forbidden: emptyDir and hostPath are mutually exclusive; keep one of them",
        volumes=[{"name": "v", "emptyDir": {}, "hostPath": {"path": "/srv"}}],
    ),
    pod(
        "a volume of nothing",
        ".volumes[0]",
        "Required value: set one of configMap, emptyDir, persistentVolumeClaim or secret",
        volumes=[{"name": "v"}],
    ),
    pod(
        "a volume of the controller's name",
        ".volumes[0].name",
        "the prefix tfdist- is reserved; use another name",
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
        "Forbidden: the controller names this volume; remove name",
        checkpoint={**CHECKPOINT, "volume": {**CHECKPOINT["volume"], "name": "ckpt"}},
    ),
)

_AMOUNTS: Final = (
    field("memory with a space", "resources.limits.memory", "16 GB", QUANTITY, PATTERN),
    field("a negative request", "resources.requests.cpu", "-1", QUANTITY, PATTERN),
    field("less than no CPU", "resources.requests.cpu", -1, QUANTITY, "should be greater than or equal to 0"),
    field("half a CPU without quotes", "resources.limits.cpu", 0.5, QUANTITY, "Invalid value"),
    field("an amount beyond all bounds", "resources.limits.cpu", "1e999", QUANTITY, PATTERN),
    field("an amount as a list", "resources.limits.cpu", [1], QUANTITY, "Invalid value"),
    field("an amount of too many digits", "resources.limits.cpu", "0" * 65, QUANTITY, LONG),
    field("a device twice", "resources.claims", [{"name": "d"}] * 2, 'Duplicate value: "d": items 0 and 1', TWICE),
    field("a device without a name", "resources.claims[0].name", "", "must have at least 1 character", SHORT),
    field(
        "a request of a device without a name",
        "resources.claims[0].request",
        "",
        "must have at least 1 character",
        SHORT,
        resources={"claims": [{"name": "d"}]},
    ),
    field(
        "too many resources",
        "resources.limits",
        {f"r{i}": 1 for i in range(33)},
        "Too many: 33: must have at most 32 items",
        MANY,
    ),
    field(
        "too many resources to ask for",
        "resources.requests",
        {f"r{i}": 1 for i in range(33)},
        "Too many: 33: must have at most 32 items",
        MANY,
    ),
    pod(
        "a resource with a space",
        ".resources.limits['nvidia gpu']",
        "the key must be a qualified name, such as cpu or nvidia.com/gpu",
        resources={"limits": {"nvidia gpu": 1}},
    ),
    pod(
        "a request above its limit",
        ".resources.requests.cpu",
        "must be less than or equal to the limit of 500m",
        resources={"requests": {"cpu": 2}, "limits": {"cpu": "500m"}},
    ),
    pod(
        "a request of the job above the limit of a role",
        ".resources.requests.memory",
        "must be less than or equal to the limit of 1G",
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
        "Forbidden: worker sets its own command",
        **STANDBY,
        command=["tfdist-launch", "python", "train.py"],
    ),
)

CASES: Final[tuple[Bad, ...]] = (*_VARIABLES, *_MOUNTS, *_VOLUMES, *_AMOUNTS)
