"""The text of a first manifest, with comments, for `tfdist init`."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from tfdist.api.resource import API_VERSION, KIND
from tfdist.api.training import SCRIPT_SUFFIX
from tfdist.cli.yaml_loader import reads_as_text
from tfdist.podspec.resources import NVIDIA_GPU

_PLAIN: Final = re.compile(r"[A-Za-z0-9/_][-A-Za-z0-9/_.*:]*(?<!:)")
"""Text that needs no quotes in YAML, unless it reads as a number or a boolean."""
_DATA_PATH: Final = "/data"
_CONFIG: Final = {
    "tabular": "label: label # column to predict; classes: 3 for classification\nnumeric: [a, b] # columns to read",
    "text_classification": "classes: 2",
}


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
    lines = [f"# yaml-language-server: $schema={schema}"] if schema else []
    lines += [
        f"# Check it after a change: tfdist validate {file}. All fields: kubectl explain {KIND.lower()}.spec",
        f"apiVersion: {API_VERSION}",
        f"kind: {KIND}",
        "metadata:",
        f"  name: {_text(answers.name)}",
        "spec:",
        "  worker:",
        f"    replicas: {answers.workers}{' # they train one model together' if answers.workers > 1 else ''}",
        "  resources: # of each worker",
        *_indented(_resources(answers.gpus), 4),
        "  training:",
        *_indented(_script(answers) if answers.script else _program(answers), 4),
        *_indented(_checkpoint(answers), 2),
        *_indented(_volumes(answers), 2),
    ]
    return "\n".join(lines) + "\n"


def _text(value: str) -> str:
    return value if _PLAIN.fullmatch(value) and reads_as_text(value) else json.dumps(value, ensure_ascii=False)


def _indented(lines: Iterator[str], columns: int) -> Iterator[str]:
    return (" " * columns + line for line in lines)


def _resources(gpus: int) -> Iterator[str]:
    if gpus:
        yield "limits:"
        yield f"  {NVIDIA_GPU}: {gpus}"
    else:
        yield "requests:"
        yield "  cpu: 1"
        yield "  memory: 2Gi"


def _script(answers: Answers) -> Iterator[str]:
    yield f"script: {_text(PurePosixPath(answers.script).as_posix())}"
    yield "args: [] # such as [--epochs, '3']"
    if answers.needs_code:
        yield "source: # `tfdist submit --code .` sends the folder in place of it"
        yield "  configMap:"
        yield f"    name: {_text(f'{answers.name}-code')}"


def _program(answers: Answers) -> Iterator[str]:
    yield f"program: {_text(answers.program)} # its configuration: docs/reference/trainer.md"
    yield "config:"
    yield "  data:"
    yield f"    train: {_text(answers.data)} # files that a worker reads"
    if answers.eval_data:
        yield f"    eval: {_text(answers.eval_data)}"
    yield from _indented(iter(_CONFIG.get(answers.program, "").splitlines()), 2)
    if ":" not in answers.program:
        yield "  epochs: 3"


def _checkpoint(answers: Answers) -> Iterator[str]:
    if not answers.checkpoint_claim:
        return
    yield "checkpoint:"
    yield "  directory: /checkpoints/{name} # a new job of the same name continues from these checkpoints"
    yield "  volume:"
    yield "    persistentVolumeClaim:"
    yield f"      claimName: {_text(answers.checkpoint_claim)} # that all pods can mount, such as ReadWriteMany"
    yield "  everySeconds: 300"
    if answers.eval_data:
        yield "evaluation:"
        yield "  mode: AfterTraining # or Continuous: each checkpoint, by one more pod"


def _volumes(answers: Answers) -> Iterator[str]:
    if not answers.data_claim:
        return
    yield "volumes:"
    yield "  - name: data"
    yield "    persistentVolumeClaim:"
    yield f"      claimName: {_text(answers.data_claim)}"
    yield "volumeMounts:"
    yield "  - name: data"
    yield f"    mountPath: {_text(_mount(answers.data))}"
    yield "    readOnly: true"


def _mount(data: str) -> str:
    """Return the path at which the claim is mounted: the first folder of the data."""
    parts = PurePosixPath(data).parts
    return f"/{parts[1]}" if len(parts) > 2 else _DATA_PATH  # noqa: PLR2004  root, folder, file
