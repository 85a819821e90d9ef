"""Texts of the status, of events and of the webhook: printable whatever their source, and each clause once."""

import sys
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.factories import Lifecycle, launcher_report, manifest, pod, report, stored
from support.factories import failure_in_place as failure

from tfdist.api.status import Progress
from tfdist.planner import Event
from tfdist.printable import printable
from tfdist.status.text import LONGEST_MESSAGE, is_printable_json, message
from tfdist.validation import FieldError
from tfdist_operator.webhook.admission import Review, review

EVIL = "bell\x07 and\u202e order\u2028\u200b\x1b[31m"
GOOD = "bell  and  order   [31m"
VISIBLE = "\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"
"""Signs before numbers: format characters that have a shape."""
HARMLESS = frozenset("\t\n\u200c\u200d" + VISIBLE)


def test_every_control_format_and_separator_character_of_unicode_is_replaced() -> None:
    every = map(chr, range(sys.maxunicode + 1))
    bad = [c for c in every if unicodedata.category(c) in {"Cc", "Cf", "Zl", "Zp", "Cs"} and c not in HARMLESS]
    assert [hex(ord(c)) for c in bad if printable(c) != " "] == []
    assert printable("".join(sorted(HARMLESS))) == "".join(sorted(HARMLESS))


@pytest.mark.parametrize(
    ("pods", "changes"),
    [
        ([pod("worker-0", "F", exit_code=64, message=EVIL), pod("worker-1")], {}),
        ([pod("worker-0", "P", reason="ErrImagePull", message=EVIL), pod("worker-1")], {}),
        ([pod("worker-0", "P", reason="Unschedulable", message=EVIL), pod("worker-1")], {}),
        ([pod("worker-1")], {"create_error": EVIL}),
        ([pod("worker-0"), pod("worker-1")], {"report": launcher_report(failure(1, message=EVIL), waiting_for=EVIL)}),
        ([pod("worker-0"), pod("worker-1")], {"report": report(5, metrics={"loss": 1.0})}),
        ([pod("worker-0", "F", exit_code=64, node=EVIL), pod("worker-1")], {}),
    ],
)
def test_no_text_of_a_pod_the_kubelet_or_the_api_server_gets_into_the_status_or_an_event_with_control_characters(
    pods: list[Any], changes: dict[str, Any]
) -> None:
    story = Lifecycle()
    story.reconcile()
    todo = story.reconcile(pods, **changes)
    assert repr(story.status).isprintable()
    assert "\\x" not in repr(story.status)
    assert "\\u" not in repr(story.status)
    assert all(event.message.isprintable() for event in todo.events)


def test_an_invalid_manifest_gets_into_no_status_with_control_characters() -> None:
    status = stored(problems=(FieldError("spec.worker", EVIL),), job=None)
    assert status["conditions"][0]["message"] == f"spec.worker: {GOOD}"


def test_the_webhook_answers_without_control_characters() -> None:
    found = review({**manifest(), "spec": {EVIL: 1}}, None, {})
    assert found.problems
    assert all(text.isprintable() for text in found.problems)
    assert Review(problems=(EVIL,), warnings=(EVIL,)) == Review(problems=(GOOD,), warnings=(GOOD,))


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("worker-0 failed: out of luck; out of luck; its log: x", "worker-0 failed: out of luck; its log: x"),
        ("the gang restarts; why; the gang restarts", "the gang restarts; why"),
        ("worker-0; worker-0", "worker-0; worker-0"),
        ("the job failed; the job failed again", "the job failed; the job failed again"),
        ("worker-0: spec.x: a b; spec.x: a b; a b", "worker-0: spec.x: a b"),
        ("a b; worker-0: a b", "a b; worker-0: a b"),
    ],
)
def test_a_message_has_each_clause_once(text: str, read: str) -> None:
    assert message(text) == read
    assert Event("Failed", text).message == read


@pytest.mark.parametrize(
    "text", ["x" * 5000, "a b; " * 20_000, "; ".join(f"spec.x{number}: unknown field" for number in range(100_000))]
)
def test_a_message_that_is_cut_ends_with_an_ellipsis(text: str) -> None:
    found = message(text)
    assert len(found) <= LONGEST_MESSAGE
    assert found.endswith("...")
    assert text.startswith(found.removesuffix("..."))


def test_a_message_of_the_maximum_length_is_whole() -> None:
    assert message("x" * LONGEST_MESSAGE) == "x" * LONGEST_MESSAGE


@given(text=st.text(), name=st.text())
def test_the_check_of_json_misses_no_text_that_is_not_printable(text: str, name: str) -> None:
    stored = Progress.model_construct(slowest_replica=text, metrics={name: 1.0}).model_dump_json(exclude_none=True)
    if is_printable_json(stored):
        assert (printable(text), printable(name)) == (text, name)


@pytest.mark.parametrize("text", ["plain", "a\nb\tc", 'a "quoted" path/to', "é 中 👩\u200d💻"])
def test_ordinary_texts_pass_the_check_of_json(text: str) -> None:
    assert is_printable_json(Progress.model_construct(slowest_replica=text).model_dump_json(exclude_none=True))
