"""Tests of `.ci/vocabulary`, which rejects words that a standard term replaced."""

import importlib.machinery
import importlib.util
import pathlib

import pytest

SCRIPT = str(pathlib.Path(__file__).parents[2] / ".ci/vocabulary")
_loader = importlib.machinery.SourceFileLoader("vocabulary", SCRIPT)
_spec = importlib.util.spec_from_loader("vocabulary", _loader)
assert _spec
script = importlib.util.module_from_spec(_spec)
_loader.exec_module(script)

RULES = """
words = [{match = "told", use = "reported"}]
names = [{match = "Look", use = "PlanContext"}, {match = "hold", within = "operator/", use = "renew_until_lost"}]
exceptions = [{path = "docs/*", text = "study.told", reason = "the method's name in another library"}]
unconverted = []
"""


@pytest.mark.parametrize(
    ("path", "text", "found"),
    [
        ("a.md", "it was told\nand Told again", [(1, "told"), (2, "Told")]),
        ("a.py", "told_anew = wasTold", [(1, "told"), (1, "Told")]),
        ("a.md", "untoldable", []),
        ("docs/a.md", "`study.told`", []),
        ("docs/a.md", "`study.told` and told", [(1, "told")]),
        ("a.py", "class Look:\n    pass", [(1, "Look")]),
        ("a.py", "x = Look()", []),
        ("operator/a.py", "def _hold(): ...", [(1, "hold")]),
        ("sdk/a.py", "def hold(): ...", []),
        ("operator/hold.py", "", [(1, "hold")]),
    ],
)
def test_findings_of_a_file(path: str, text: str, found: list[tuple[int, str]]) -> None:
    findings = script.Vocabulary(RULES).findings(path, text)
    assert [(f.line, f.found) for f in findings] == found


def test_a_finding_names_the_file_the_line_and_the_term_to_use() -> None:
    (finding,) = script.Vocabulary(RULES).findings("docs/b.md", "told")
    assert str(finding) == "docs/b.md:1: 'told': use reported"


def test_an_unconverted_folder_does_not_cover_its_subfolders() -> None:
    assert script._covers("docs", "docs/a.md")
    assert script._covers("docs/a.md", "docs/a.md")
    assert not script._covers("docs", "docs/adr/a.md")
