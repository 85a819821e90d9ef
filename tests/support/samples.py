"""The samples that are shipped with the CRD, as tests read them."""

import pathlib
from typing import Any

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "crds" / "samples"
_ALL = sorted(path.stem for path in FOLDER.glob("*.yaml"))


def text(name: str) -> str:
    """Return a sample as it is written."""
    return (FOLDER / f"{name}.yaml").read_text(encoding="utf-8")


def sample(name: str) -> dict[str, Any]:
    """Return the manifest of a sample."""
    manifest: dict[str, Any] = yaml.safe_load(text(name))
    return manifest


SAMPLES = [name for name in _ALL if sample(name)["kind"] == "TFDistJob"]
"""Those of jobs."""
SWEEP_SAMPLES = [name for name in _ALL if sample(name)["kind"] == "TFDistSweep"]
