"""`docs/failures.md` has exactly the phases, conditions and reasons that the controller reports."""

import pathlib
import re

import pytest

from tfdist.api.status import ConditionType, JobPhase
from tfdist.failure_classification import RULES

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "failures.md").read_text(encoding="utf-8")
CODE = [*(ROOT / "operator").rglob("*.py"), *(ROOT / "sdk").rglob("*.py")]
SOURCES = "\n".join(path.read_text(encoding="utf-8") for path in CODE)


@pytest.mark.parametrize(
    "name", [*JobPhase, *ConditionType, *dict.fromkeys(rule.classification.reason for rule in RULES)]
)
def test_it_explains_each_phase_condition_and_exit_reason(name: str) -> None:
    assert re.search(rf"`{name}(=\w+)?`", PAGE), name


def test_every_listed_reason_is_one_that_the_controller_reports() -> None:
    listed = re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)
    known = {str(name) for name in [*JobPhase, *ConditionType]}
    assert listed
    assert [r for r in listed if r not in known and f'"{r}"' not in SOURCES] == []
