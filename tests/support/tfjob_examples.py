"""The TFJobs that the training operator ships as examples, and the fields of its API, read from its Go module.

They are fetched when a test asks for them and are no part of this repository.
"""

import functools
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from typing import Any, Final

import pytest
import yaml

MODULE: Final = "github.com/kubeflow/training-operator@v1.9.4"
COUNT: Final = 4
"""Number of TFJobs among the examples of that version."""

Json = dict[str, Any]


@functools.cache
def examples() -> dict[str, Json]:
    """Return every TFJob below `examples/tensorflow`, by its file's path there; skip the test if Go is missing.

    Raises:
        subprocess.CalledProcessError: the module cannot be downloaded.
    """
    folder = module() / "examples" / "tensorflow"
    tfjobs = {}
    for file in sorted(folder.rglob("*")):
        for i, job in enumerate(_tfjobs(file)):
            tfjobs[f"{file.relative_to(folder)}{f'#{i}' if i else ''}"] = job
    return tfjobs


def fields() -> set[str]:
    """Return the paths below `spec` of all fields in the TFJob's CRD but those of pods; `*` is any replica type."""
    text = (module() / "manifests" / "base" / "crds" / "kubeflow.org_tfjobs.yaml").read_text()
    crd = yaml.load(text, yaml.CSafeLoader)  # safe too, and in C: the file is large
    (version,) = crd["spec"]["versions"]
    return set(_paths(version["schema"]["openAPIV3Schema"]["properties"]["spec"], ""))


def _paths(schema: Json, path: str) -> Iterator[str]:
    for name, inner in schema.get("properties", {}).items():
        yield f"{path}{name}"
        if name == "template":
            continue
        yield from _paths(inner, f"{path}{name}.")
        if isinstance(inner.get("additionalProperties"), dict):
            yield from _paths(inner["additionalProperties"], f"{path}{name}.*.")


@functools.cache
def module() -> pathlib.Path:
    """Return the folder of the module in Go's cache, which downloads and verifies it once; skip if Go is missing.

    Raises:
        subprocess.CalledProcessError: the module cannot be downloaded.
    """
    if shutil.which("go") is None:
        pytest.skip("the examples are read from a Go module, and `go` is not installed")
    # outside of any module, so that no go.mod decides about versions
    with tempfile.TemporaryDirectory() as folder:
        downloaded = subprocess.run(
            ["go", "mod", "download", "-json", MODULE],
            cwd=folder,
            env=os.environ | {"GOTOOLCHAIN": "local", "GOWORK": "off"},
            check=True,
            capture_output=True,
            text=True,
        )
    return pathlib.Path(json.loads(downloaded.stdout)["Dir"])


def _tfjobs(file: pathlib.Path) -> Iterator[Json]:
    if file.suffix in {".yaml", ".yml"}:
        documents = list(yaml.safe_load_all(file.read_text()))
    elif file.suffix == ".json":
        documents = [json.loads(file.read_text())]
    else:
        documents = []
    yield from (d for d in documents if isinstance(d, dict) and d.get("kind") == "TFJob")
