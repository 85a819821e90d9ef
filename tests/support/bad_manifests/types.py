"""Values of another type than the field's, and fields that are required and absent."""

from typing import Any, Final

from support.bad_manifests.case import ABSENT, TYPE, Bad, field, job


def absent(name: str, path: str, **spec: Any) -> Bad:
    return Bad(name, job(**spec), f"spec.{path}: required, and absent", f"spec.{path}: {ABSENT}")


def source(**kind: Any) -> dict[str, Any]:
    return {"training": {"program": "team:Train", "source": kind}}


_TYPES: Final = (
    field("words for a number", "worker.replicas", "two", "write a whole number, without quotes; got 'two'", TYPE),
    field("a number in quotes", "chief.replicas", "1", "write a whole number, without quotes; got '1'", TYPE),
    field("half a worker", "worker.replicas", 2.5, "write a whole number, without quotes; got 2.5", TYPE),
    field(
        "a boolean for a number", "runPolicy.backoffLimit", True, "write a whole number, without quotes; got true", TYPE
    ),
    field("a number for an image", "image", 2.16, "write text, numbers and true or false in quotes; got 2.16", TYPE),
    field("a number for an argument", "args[0]", 5, "write text, numbers and true or false in quotes; got 5", TYPE),
    field(
        "a number for a variable",
        "env[0].value",
        1,
        "write text, numbers and true or false in quotes; got 1",
        TYPE,
        env=[{"name": "A"}],
    ),
    field("a command in one line", "command", "python train.py", "write a list; got 'python train.py'", TYPE),
    field(
        "a list for a map",
        "worker",
        [{"replicas": 2}],
        "write a map of fields; got [{'replicas': 2}]",
        'unknown field "spec.worker[0].replicas"',
    ),
    field("a map for a list", "env", {"A": "1"}, "write a list; got {'A': '1'}", 'unknown field "spec.env.A"'),
    field("a number for a role", "ps", 2, "write a map of fields; got 2", TYPE),
    field("true for TensorBoard", "tensorBoard", True, "write a map of fields; got true", TYPE),
    field("suspended by a word", "runPolicy.suspend", "true", "write true or false, without quotes; got 'true'", TYPE),
    field(
        "a list of settings of a program", "training.config", ["epochs"], "write a map of fields; got ['epochs']", TYPE
    ),
    field("text for a factor", "oomPolicy.memoryFactor", "2", "write a number, without quotes; got '2'", TYPE),
    field("text for GPUs", "runtime.visibleDevices", "0,1", "write a list; got '0,1'", TYPE),
    field(
        "a volume by its name",
        "checkpoint.volume",
        "ckpt",
        "write a map of fields; got 'ckpt'",
        TYPE,
        checkpoint={"directory": "/ckpt"},
    ),
)

_ABSENT: Final = (
    absent("training of nothing", "training.program", training={}),
    absent("a ConfigMap without a name", "training.source.configMap.name", **source(configMap={})),
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
