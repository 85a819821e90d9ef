"""Errors in `training.export`: values, what it requires, and directories that are deleted with their pods."""

from typing import Any, Final

from support.bad_manifests.case import ENUM, FEW, PATTERN, TWICE, Bad, field, pod, rule
from support.factories import CHECKPOINT, TRAINING

PATH: Final = ".training.export.directory"


def training(**export: Any) -> dict[str, Any]:
    """Return the fields of a job that exports."""
    return {"training": {**TRAINING, "export": export}, "checkpoint": CHECKPOINT}


def value(name: str, path: str, value: Any, message: str, server: str) -> Bad:
    return field(name, f"training.export.{path}", value, message, server, **training())


CASES: Final = (
    value(
        "an export in a relative path",
        "directory",
        "models",
        "must be an absolute path or a URL, with no other placeholders than {name}, {namespace} and {uid}",
        PATTERN,
    ),
    value(
        "a format of another framework",
        "formats[0]",
        "Onnx",
        'Unsupported value: "Onnx": supported values: Keras, SavedModel',
        ENUM,
    ),
    value("a format twice", "formats", ["Keras", "Keras"], 'Duplicate value: "Keras": items 0 and 1', TWICE),
    value("an export in no format", "formats", [], "must have at least 1 item", FEW),
    value("an export of no model", "which", [], "must have at least 1 item", FEW),
    rule(
        "an export to a URL of another scheme",
        PATH,
        "directory must be an absolute path or a URL (s3, gs); mount a volume there, or remove it",
        **training(directory="hdfs://cluster/models"),
    ),
    rule(
        "an export without checkpoints",
        ".training.export",
        "export requires training with checkpoints; set checkpoint.directory, or remove export",
        training={**TRAINING, "export": {}},
    ),
    rule(
        "the best model of a program without an evaluator",
        ".training.export.which",
        "the best model of a program requires evaluation.mode Continuous or Both; change mode, or remove Best",
        **training(which=["Final", "Best"]),
    ),
    pod(
        "an export into the container",
        PATH,
        'Invalid value: "/models/{name}": the directory is in the file system of the container, which is deleted',
        **training(directory="/models/{name}"),
    ),
    pod(
        "an export into an emptyDir",
        PATH,
        'Invalid value: "/tmp/models": the directory is on volume scratch, an emptyDir, which is deleted with the pod',
        **training(directory="/tmp/models"),
        volumes=[{"name": "scratch", "emptyDir": {}}],
        volumeMounts=[{"name": "scratch", "mountPath": "/tmp"}],
    ),
)
