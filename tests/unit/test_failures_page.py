"""`docs/failures.md` speaks of what the controller can say, and of nothing else."""

import pathlib
import re
import runpy

import pytest

from tfdist.api.status import ConditionType, JobPhase
from tfdist.exits import TABLE

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "failures.md").read_text(encoding="utf-8")
CODE = [*(ROOT / "operator/tfdist_operator").rglob("*.py"), ROOT / "sdk/tfdist/exits.py"]
SOURCES = "\n".join(path.read_text(encoding="utf-8") for path in CODE)


def test_its_table_of_exit_reasons_is_the_one_in_the_code() -> None:
    assert runpy.run_path(str(ROOT / "crds" / "exit_reasons.py"))["page"]() == PAGE, "run `make generate`"


@pytest.mark.parametrize("name", [*JobPhase, *ConditionType, *{row.verdict.reason for row in TABLE}])
def test_it_explains_each_phase_condition_and_exit_reason(name: str) -> None:
    assert re.search(rf"`{name}(=\w+)?`", PAGE), name


def test_every_reason_that_it_lists_is_one_of_the_controllers() -> None:
    listed = re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)
    known = {str(name) for name in [*JobPhase, *ConditionType]}
    assert listed
    assert [r for r in listed if r not in known and f'"{r}"' not in SOURCES] == []
