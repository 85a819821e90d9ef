"""The examples that are shipped, as tests read them."""

import pathlib
from typing import Any, Final

import yaml

from tfdist_demo.kubectl import Kubectl
from tfdist_demo.place import DEMO

FOLDER: Final = pathlib.Path(__file__).resolve().parents[2] / "examples"
MANIFESTS: Final = sorted(
    str(path.relative_to(FOLDER)) for pattern in ("*.yaml", "*/job.yaml") for path in FOLDER.glob(pattern)
)


def needs_image(name: str) -> bool:
    """Return whether an example needs an image that is built from its Dockerfile first."""
    return "image" in job(name)["spec"]


def text(name: str) -> str:
    """Return an example's manifest as it is written."""
    return (FOLDER / name).read_text(encoding="utf-8")


def job(name: str) -> dict[str, Any]:
    """Return the job of an example."""
    manifest: dict[str, Any] = yaml.safe_load(text(name))
    return manifest


def to_apply(name: str) -> tuple[str, str]:
    """Return kubectl's option and argument that apply an example."""
    path = FOLDER / name
    return ("-k", str(path.parent)) if path.name == "job.yaml" else ("-f", str(path))


def placed(kubectl: Kubectl, name: str) -> str:
    """Return the objects of an example, as YAML, in the namespace that kubectl is bound to."""
    option, path = to_apply(name)
    printed = kubectl.run("kustomize", path) if option == "-k" else text(name)
    return printed.replace(f"namespace: {DEMO.namespace}", f"namespace: {kubectl.place.namespace}")
