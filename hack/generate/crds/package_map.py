"""Generates the maps of packages in CONTRIBUTING.md: layers of `pyproject.toml`, docstrings of the packages."""

import ast
import pathlib
import re
import tomllib
from collections.abc import Iterator, Sequence
from typing import Final

from pages import ROOT, table

PAGE: Final = ROOT / "CONTRIBUTING.md"
FOLDERS: Final = {
    "tfdist": ROOT / "sdk/tfdist",
    "tfdist_operator": ROOT / "operator/tfdist_operator",
    "tfdist_trainer": ROOT / "trainer_image/tfdist_trainer",
}
_MAP: Final = re.compile(
    r"(<!-- layers of (\w+), written by `make generate` -->\n).*?(<!-- end of layers -->)", re.DOTALL
)


def page() -> str:
    """Return the content of CONTRIBUTING.md, with each map replaced by the current one."""
    return _MAP.sub(lambda found: f"{found[1]}{package_map(found[2])}\n{found[3]}", PAGE.read_text(encoding="utf-8"))


def package_map(root: str) -> str:
    """Return the table of the packages in `root`, the highest layer first.

    Raises:
        ValueError: a package is in no layer.
    """
    packages = {path.parent.name: path for path in FOLDERS[root].glob("*/__init__.py")}
    layers = [[name for name in layer if name in packages] for layer in _layers(root)]
    named = {name for layer in layers for name in layer}
    if missing := sorted(packages.keys() - named):
        msg = f"{root}: {', '.join(missing)} is in no layer: add it to the layers of {root} in pyproject.toml"
        raise ValueError(msg)
    rows = [(f"`{name}`", _first_line(packages[name])) for layer in layers for name in layer]
    return "\n".join(table(("package", "what it does"), rows))


def _layers(root: str) -> Iterator[Sequence[str]]:
    """Yield the names in each layer of a root package; `sweeps.trial` is in the package `sweeps`, named once."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    (layers,) = (c["layers"] for c in contracts if c["type"] == "layers" and c["containers"] == [root])
    seen: set[str] = set()
    for layer in layers:
        names = dict.fromkeys(name.strip().partition(".")[0] for name in layer.split("|"))
        yield [name for name in names if name not in seen]
        seen.update(names)


def _first_line(path: pathlib.Path) -> str:
    return (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n")[0]
