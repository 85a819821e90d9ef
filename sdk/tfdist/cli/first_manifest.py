"""The text of a first manifest, with comments, for `tfdist init`."""

import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final

import yaml

from tfdist.api.resource import KIND
from tfdist.api.training import SCRIPT_SUFFIX
from tfdist.cli.documents import node_at, position_of
from tfdist.cli.manifests import write_yaml
from tfdist.client.new_job import Json, new_job

_DATA_PATH: Final = "/data"
_CONFIG: Final[dict[str, Json]] = {
    "tabular": {"label": "label", "numeric": ["a", "b"]},
    "text_classification": {"classes": 2},
}
"""Fields of `training.config` that a program requires."""
_COMMENTS: Final = {
    "spec.worker.replicas": "they train one model together",
    "spec.resources": "of each worker",
    "spec.training.program": "its configuration: docs/reference/trainer.md",
    "spec.training.args": "such as [--epochs, '3']",
    "spec.training.source": "`tfdist submit --code .` sends the folder in place of it",
    "spec.training.config.data.train": "files that a worker reads",
    "spec.training.config.label": "column to predict; classes: 3 for classification",
    "spec.training.config.numeric": "columns to read",
    "spec.checkpoint.directory": "a new job of the same name continues from these checkpoints",
    "spec.checkpoint.volume.persistentVolumeClaim.claimName": "that all pods can mount, such as ReadWriteMany",
    "spec.evaluation.mode": "or Continuous: each checkpoint, by one more pod",
}
"""By the paths of fields."""


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers of the user; "" for none."""

    program: str
    script: str
    name: str
    workers: int
    gpus: int
    data: str
    data_claim: str
    checkpoint_claim: str
    eval_data: str

    @property
    def needs_code(self) -> bool:
        """Whether a file of the user goes with the job."""
        return self.script.endswith(SCRIPT_SUFFIX) and not self.script.startswith("/")


def text(answers: Answers, file: str, schema: str) -> str:
    """Return the manifest.

    Args:
        answers: of the user.
        file: name of the manifest, for a comment.
        schema: for editors, as a URL or a path relative to the manifest; empty for none.
    """
    heading = [f"# yaml-language-server: $schema={schema}"] if schema else []
    heading.append(
        f"# Check it after a change: tfdist validate {file}. All fields: kubectl explain {KIND.lower()}.spec"
    )
    stream = io.StringIO()
    write_yaml(stream, [(_manifest(answers), ())])
    lines = stream.getvalue().splitlines()
    for number, comment in _comments(stream.getvalue(), answers):
        lines[number] += f" # {comment}"
    return "\n".join([*heading, *lines]) + "\n"


def _comments(manifest: str, answers: Answers) -> Iterator[tuple[int, str]]:
    """Yield the comments with the indices of their lines."""
    root: Any = yaml.compose(manifest, Loader=yaml.SafeLoader)
    for path, comment in _COMMENTS.items():
        if node_at(root, path) is not None and (path != "spec.worker.replicas" or answers.workers > 1):
            yield position_of(root, path).line - 1, comment


def _manifest(answers: Answers) -> Json:
    more: Json = {} if answers.gpus else {"resources": {"requests": {"cpu": 1, "memory": "2Gi"}}}
    runs = {"training": _script(answers) if answers.script else _program(answers)}
    if answers.checkpoint_claim:
        more["checkpoint"] = {
            "directory": "/checkpoints/{name}",
            "volume": _claim(answers.checkpoint_claim),
            "everySeconds": 300,
        }
        if answers.eval_data:
            more["evaluation"] = {"mode": "AfterTraining"}
    if answers.data_claim:
        more["volumes"] = [{"name": "data"} | _claim(answers.data_claim)]
        more["volumeMounts"] = [{"name": "data", "mountPath": _mount(answers.data), "readOnly": True}]
    return new_job(runs, answers.name, "", workers=answers.workers, gpus=answers.gpus, fields=more)


def _script(answers: Answers) -> dict[str, Any]:
    script: Json = {"script": PurePosixPath(answers.script).as_posix(), "args": []}
    return script | ({"source": {"configMap": {"name": f"{answers.name}-code"}}} if answers.needs_code else {})


def _program(answers: Answers) -> Json:
    data = {"train": answers.data} | ({"eval": answers.eval_data} if answers.eval_data else {})
    epochs = {} if ":" in answers.program else {"epochs": 3}
    return {"program": answers.program, "config": {"data": data} | _CONFIG.get(answers.program, {}) | epochs}


def _claim(name: str) -> Json:
    return {"persistentVolumeClaim": {"claimName": name}}


def _mount(data: str) -> str:
    """Return the path at which the claim is mounted: the first folder of the data."""
    parts = PurePosixPath(data).parts
    return f"/{parts[1]}" if len(parts) > 2 else _DATA_PATH  # noqa: PLR2004  root, folder, file
