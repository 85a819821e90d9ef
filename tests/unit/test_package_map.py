"""The maps of packages in CONTRIBUTING.md are those of the import contracts."""

import pathlib
import re
from typing import Any

import pytest
from support import generators

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


@pytest.fixture
def generator() -> dict[str, Any]:
    return generators.generator("package_map")


def test_each_root_package_has_a_map_in_which_every_package_has_a_sentence(generator: dict[str, Any]) -> None:
    assert set(re.findall(r"<!-- layers of (\w+)", PAGE)) == set(generator["FOLDERS"])
    for root, folder in generator["FOLDERS"].items():
        rows = re.findall(r"^\| `(\w+)` \| \S+", generator["package_map"](root), re.MULTILINE)
        assert sorted(rows) == sorted(path.parent.name for path in folder.glob("*/__init__.py"))


def test_a_package_without_a_layer_is_an_error(generator: dict[str, Any], tmp_path: pathlib.Path) -> None:
    (tmp_path / "unplanned").mkdir()
    (tmp_path / "unplanned" / "__init__.py").write_text('"""A package that nobody gave a layer."""\n')
    generator["FOLDERS"]["tfdist"] = tmp_path
    with pytest.raises(ValueError, match="tfdist: unplanned is in no layer: add it to the layers of tfdist"):
        generator["package_map"]("tfdist")
