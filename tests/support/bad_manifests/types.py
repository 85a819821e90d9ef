"""Values of another type than the field's, and fields that are required and absent."""

from typing import Any, Final

from support.bad_manifests.case import ABSENT, TYPE, Bad, field, job


def absent(name: str, path: str, **spec: Any) -> Bad:
    return Bad(name, job(**spec), f"spec.{path}: {ABSENT}", f"spec.{path}: {ABSENT}")


def source(**kind: Any) -> dict[str, Any]:
    return {"training": {"program": "team:Train", "source": kind}}


_TYPES: Final = (
    field("words for a number", "worker.replicas", "two", "must be an integer, without quotes", TYPE),
    field("a number in quotes", "chief.replicas", "1", "must be an integer, without quotes", TYPE),
    field("half a worker", "worker.replicas", 2.5, "must be an integer, without quotes", TYPE),
    field("a boolean for a number", "runPolicy.backoffLimit", True, "must be an integer, without quotes", TYPE),
    field("a number for an image", "image", 2.16, "must be a string; quote numbers and booleans", TYPE),
    field("a number for an argument", "args[0]", 5, "must be a string; quote numbers and booleans", TYPE),
    field(
        "a number for a variable",
        "env[0].value",
        1,
        "must be a string; quote numbers and booleans",
        TYPE,
        env=[{"name": "A"}],
    ),
    field("a command in one line", "command", "python train.py", "must be a list", TYPE),
    field(
        "a list for a map",
        "worker",
        [{"replicas": 2}],
        "must be an object",
        'unknown field "spec.worker[0].replicas"',
    ),
    field("a map for a list", "env", {"A": "1"}, "must be a list", 'unknown field "spec.env.A"'),
    field("a number for a role", "ps", 2, "must be an object", TYPE),
    field("true for TensorBoard", "tensorBoard", True, "must be an object", TYPE),
    field("suspended by a word", "runPolicy.suspend", "true", "must be true or false, without quotes", TYPE),
    field("a list of settings of a program", "training.config", ["epochs"], "must be an object", TYPE),
    field("text for GPUs", "runtime.visibleDevices", "0,1", "must be a list", TYPE),
    field(
        "a volume by its name",
        "checkpoint.volume",
        "ckpt",
        "must be an object",
        TYPE,
        checkpoint={"directory": "/ckpt"},
    ),
)

_ABSENT: Final = (
    absent("a ConfigMap without a name", "training.source.configMap.name", **source(configMap={})),
    absent("an archive without a name", "training.source.archive.name", **source(archive={})),
    absent(
        "a claim without a name", "training.source.persistentVolumeClaim.claimName", **source(persistentVolumeClaim={})
    ),
    absent("a repository without a place", "training.source.git.repository", **source(git={})),
    absent("checkpoints without a place", "checkpoint.directory", checkpoint={}),
    absent("a failure policy without rules", "failurePolicy.rules", failurePolicy={}),
    absent(
        "a rule without an action",
        "failurePolicy.rules[0].action",
        failurePolicy={"rules": [{"onMessagePattern": "x"}]},
    ),
    absent("a variable without a name", "env[0].name", env=[{"value": "x"}]),
    absent("a volume without a name", "volumes[0].name", volumes=[{"emptyDir": {}}]),
    absent("a mount without a path", "volumeMounts[0].mountPath", volumeMounts=[{"name": "v"}]),
)

CASES: Final[tuple[Bad, ...]] = (*_TYPES, *_ABSENT)
