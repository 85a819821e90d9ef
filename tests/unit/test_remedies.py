"""Each reason for which a job fails, waits or restarts has a remedy for the user."""

import re

import pytest

from tfdist.failure_classification import REASONS
from tfdist.reasons import ConditionReason
from tfdist.remedies import REMEDIES, remedy

FAILED = [str(reason) for reason in ConditionReason if re.search(r"`(Failed|Invalid|Stalled)=True`", reason.types)]


@pytest.mark.parametrize("reason", sorted({*REASONS, *FAILED}))
def test_each_reason_of_a_failure_has_a_remedy(reason: str) -> None:
    assert remedy(reason)


@pytest.mark.parametrize("reason", sorted(REMEDIES))
def test_a_remedy_is_for_a_reason_that_exists(reason: str) -> None:
    assert reason in {*REASONS, *map(str, ConditionReason)}


def test_an_unknown_reason_has_no_remedy() -> None:
    assert remedy("OfANewerVersion") == ""


def test_an_instruction_that_the_processor_lacks_has_a_remedy_of_its_own() -> None:
    assert "ONEDNN_MAX_CPU_ISA" in remedy("ApplicationError", 132)
