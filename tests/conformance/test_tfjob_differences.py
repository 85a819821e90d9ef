"""The page for people who move from TFJob tells the truth: its example is the converter's, its cases have tests."""

import pathlib
import re

import yaml

from tfdist.convert import convert

ROOT = pathlib.Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
PAGE = (ROOT / "docs" / "tfjob-differences.md").read_text()
FIRST, LAST = 1, 94


def test_the_example_before_becomes_the_example_after() -> None:
    before, after = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    made = convert(yaml.safe_load(before))
    assert made.manifest == yaml.safe_load(after)
    said = " ".join(line.lstrip("# ").strip() for line in after.splitlines() if line.startswith("#"))
    assert [note for note in made.notes if str(note) not in said] == []


def test_every_case_has_a_test_and_stands_on_the_page() -> None:
    files = [
        *(TESTS / "conformance").glob("test_tfjob_*cases.py"),
        *(TESTS / "integration").glob("test_conformance_*.py"),
    ]
    tests = "".join(file.read_text() for file in files)
    tested = {int(number) for number in re.findall(r"def test_c(\d+)_", tests)}
    told = {int(number) for number in re.findall(r"\bC(\d+)\b", PAGE)}
    for first, last in re.findall(r"\bC(\d+) to C(\d+)\b", PAGE):
        told |= set(range(int(first), int(last) + 1))
    assert tested == told == set(range(FIRST, LAST + 1))
