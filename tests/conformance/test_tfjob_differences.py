"""The page of differences from TFJob: every case on it has a test, and every test of a case is on it."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
PAGE = (ROOT / "docs" / "tfjob-differences.md").read_text()
FIRST, LAST = 1, 94


def test_every_case_has_a_test_and_is_on_the_page() -> None:
    files = [
        *(TESTS / "conformance").glob("test_tfjob_*cases.py"),
        *(TESTS / "integration").glob("test_conformance_*.py"),
    ]
    tests = "".join(file.read_text() for file in files)
    tested = {int(number) for number in re.findall(r"def test_c(\d+)_", tests)}
    listed = {int(number) for number in re.findall(r"\bC(\d+)\b", PAGE)}
    for first, last in re.findall(r"\bC(\d+) to C(\d+)\b", PAGE):
        listed |= set(range(int(first), int(last) + 1))
    assert tested == listed == set(range(FIRST, LAST + 1))
