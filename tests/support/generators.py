"""The programs in `hack/generate/crds` that generate files."""

import pathlib
import runpy
from typing import Any, Final

import pytest

FOLDER: Final = pathlib.Path(__file__).resolve().parents[2] / "hack" / "generate" / "crds"


def generator(name: str) -> dict[str, Any]:
    """Return the names that the program `name` defines; it imports its neighbours, as when it runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        return runpy.run_path(str(FOLDER / f"{name}.py"))
