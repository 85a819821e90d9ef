"""Snippets and names in the documentation: jobs are valid, commands, targets, files and modules exist."""

import importlib.util
import pathlib
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from itertools import takewhile

import pytest
import yaml

from tfdist.api.resource import API_VERSION, KIND
from tfdist.api.sweep import TFDistSweep
from tfdist.validation import parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "RELEASE.md",
    ROOT / "SECURITY.md",
    ROOT / "examples/README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PACKAGES = (
    "tfdist",
    "tfdist_operator",
    "tfdist_trainer",
    "tfdist_launch",
    "tfdist_cluster",
    "tfdist_demo",
    "tfdist_images",
)
# Paths that are not files of the repository: build results and working folders.
BUILT = (".state/", ".venv/", "dist/", ".tfdist/", "hack/bench/results.json", "hack/bench/recovery.json")


def blocks(name: str, *languages: str) -> Iterator[str]:
    text = (ROOT / name).read_text(encoding="utf-8")
    return (body for language, body in FENCE.findall(text) if language in languages)


def shell_lines(name: str) -> Iterator[list[str]]:
    """Yield the words of each command, from `sh` blocks and from lines after `$ ` in others."""
    for body in blocks(name, "sh"):
        yield from (shlex.split(line, comments=True) for line in body.replace("\\\n", " ").splitlines())
    for body in blocks(name, "", "console"):
        yield from (shlex.split(line[2:], comments=True) for line in body.splitlines() if line.startswith("$ tfdist "))


def code_spans(name: str) -> list[str]:
    return re.findall(r"(?<!`)`([^`\n]+)`(?!`)", FENCE.sub("", (ROOT / name).read_text(encoding="utf-8")))


@cache
def help_of(command: str) -> str:
    arguments = [sys.executable, "-m", "tfdist.cli", command, "--help"]
    return subprocess.run(arguments, capture_output=True, check=True, text=True).stdout


@cache
def make_targets() -> frozenset[str]:
    return frozenset(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


@pytest.mark.parametrize("name", NAMES)
def test_jobs_and_sweeps_in_yaml_blocks_are_valid(name: str) -> None:
    for body in blocks(name, "yaml"):
        for document in yaml.safe_load_all(body):
            if isinstance(document, dict) and document.get("kind") == "TFDistJob":
                parse(document)
            if isinstance(document, dict) and document.get("kind") == "TFDistSweep":
                assert TFDistSweep.model_validate(document)
                job = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "trial"}}
                parse(job | document["spec"]["template"])


@pytest.mark.parametrize("name", NAMES)
def test_commands_and_their_options_exist(name: str) -> None:
    for command in shell_lines(name):
        for index, word in enumerate(command):
            if word == "make" and index == 0:
                targets = [w for w in command[1:] if re.fullmatch(r"[a-z0-9-]+", w)]
                assert set(targets) <= make_targets(), command
            if word == "tfdist" and index == 0:
                options = [w.split("=")[0] for w in takewhile(lambda w: w != "--", command[2:]) if w.startswith("--")]
                assert [o for o in options if o not in help_of(command[1])] == [], command


@pytest.mark.parametrize("name", NAMES)
def test_make_targets_in_the_text_exist(name: str) -> None:
    targets = {m for span in code_spans(name) for m in re.findall(r"\bmake ([a-z0-9-]+)", span)}
    assert targets <= make_targets()


def _is_path(span: str) -> bool:
    tops = "|".join(p.name for p in ROOT.iterdir() if p.is_dir() and not p.name.startswith("."))
    return bool(re.fullmatch(rf"(?:{tops})/[\w./-]*", span)) and not span.startswith(BUILT)


@pytest.mark.parametrize("name", NAMES)
def test_files_in_the_text_exist(name: str) -> None:
    paths = [span.partition("::")[0] for span in code_spans(name)]
    assert [path for path in paths if _is_path(path) and not (ROOT / path).exists()] == []


def _exists(dotted: str) -> bool:
    """Return whether a dotted name is a module, or a name that a module's text has."""
    parent, _, last = dotted.rpartition(".")
    try:
        if importlib.util.find_spec(dotted):
            return True
        spec = importlib.util.find_spec(parent)
    except ModuleNotFoundError:
        return "." in parent and _exists(parent)  # a method: `module.Class.method`
    origin = spec.origin if spec else None
    return bool(origin) and re.search(rf"\b{last}\b", pathlib.Path(str(origin)).read_text(encoding="utf-8")) is not None


@pytest.mark.parametrize("name", NAMES)
def test_python_names_in_the_text_exist(name: str) -> None:
    dotted = {m for span in code_spans(name) for m in re.findall(rf"^(?:{'|'.join(PACKAGES)})(?:\.\w+)+", span)}
    assert sorted(d for d in dotted if not d.startswith("tfdist.dev") and not _exists(d)) == []
