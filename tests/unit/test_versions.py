"""Every file that names the version of TFDist names the same one, as RELEASE.md says."""

import pathlib
import re
from typing import Final

import pytest

from tfdist import __version__

ROOT: Final = pathlib.Path(__file__).resolve().parents[2]
PATTERNS: Final = {
    "helm/tfdist-operator/Chart.yaml": r"^(?:version|appVersion): (\S+)$",
    "sdk/pyproject.toml": r'^version = "(.*)"$',
    "operator/pyproject.toml": r'^version = "(.*)"$',
    "trainer_image/pyproject.toml": r'^version = "(.*)"$',
    "sdk/tfdist/__init__.py": r'^__version__ = "(.*)"$',
    "trainer_image/tfdist_trainer/__init__.py": r'^__version__ = "(.*)"$',
    "Dockerfile": r"^ARG VERSION=(.*)$",
    "trainer_image/Dockerfile": r"^ARG VERSION=(.*)$",
    "docs/images.md": r"^\| `VERSION`, `REVISION` \| `([^`]*)`",
    "docs/cli.md": r"every field of tfdist (\S+)$",
}


@pytest.mark.parametrize("name", PATTERNS)
def test_the_file_names_the_version(name: str) -> None:
    found = re.findall(PATTERNS[name], (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE)
    assert set(found) == {__version__}


def test_the_steps_of_a_release_name_these_files() -> None:
    page = (ROOT / "RELEASE.md").read_text(encoding="utf-8")
    table = re.findall(r"^   \| (`.*`) \|", page, re.MULTILINE)
    assert {name for cell in table for name in re.findall(r"`([^`]+)`", cell)} >= set(PATTERNS)
