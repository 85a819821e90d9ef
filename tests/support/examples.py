"""The examples that are shipped, as tests read them."""

import pathlib
from typing import Any, Final

import yaml

FOLDER: Final = pathlib.Path(__file__).resolve().parents[2] / "examples"
MANIFESTS: Final = sorted(
    str(path.relative_to(FOLDER)) for pattern in ("*.yaml", "*/job.yaml") for path in FOLDER.glob(pattern)
)


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
