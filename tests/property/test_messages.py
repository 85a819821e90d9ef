"""No message of a condition or an event repeats a part of itself, and none has a control character, in any history."""

import json
import re
import unicodedata
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.factories import EVALUATED, Lifecycle, launcher_report, pod, report
from support.factories import failure_in_place as failure

from tfdist.observed.pod import PodSummary
from tfdist.planner import Plan

CAUSES = (
    "",
    "ValueError: bad shape",
    "worker-1: lost its peer; worker-1: lost its peer",
    "evil \u202e\x07\x1b[31m text\u2028\u200b",
    json.dumps({"reason": "UserError", "message": "worker-0: no such file; no such file"}),
    json.dumps({"reason": "Crash", "message": "worker-1 ended with exit code 1; \u2066killed\u0007 by it"}),
)
WAITS = ("", "worker-1 has not joined", "worker-1 has not joined; worker-1 has not joined", "\u202eworker-0")
BLOCKED = ("", "ImagePullBackOff", "CreateContainerConfigError", "Unschedulable", "ContainerCreating")
SPECS: tuple[dict[str, Any], ...] = (
    {},
    {"runPolicy": {"backoffLimit": 1, "startDeadlineSeconds": 60}},
    {"strategy": "ParameterServer", "ps": {"replicas": 1}, "chief": {}},
    {"failurePolicy": {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [3]}}]}},
    EVALUATED,
)
PODS = st.tuples(
    st.sampled_from("PRRRSF"), st.sampled_from(CAUSES), st.sampled_from((1, 3, 42, 64, 75, 137)), st.booleans()
)
STEP = st.fixed_dictionaries(
    {
        "pods": st.lists(st.one_of(st.none(), PODS, PODS, PODS), min_size=5, max_size=5),
        "blocked": st.sampled_from(BLOCKED),
        "after": st.sampled_from((0, 1, 40, 400)),
        "report": st.sampled_from(("none", "plain", "launcher", "failure")),
        "waits": st.sampled_from(WAITS),
        "cause": st.sampled_from(CAUSES[1:4]),
        "workers": st.sampled_from((2, 2, 2, 3)),
        "suspend": st.sampled_from((False, False, False, True)),
        "generation": st.integers(1, 3),
        "template": st.sampled_from(("", "other")),
        "create_error": st.sampled_from(("", "exceeded quota: pods; exceeded quota: pods\x07")),
        "restarted_at": st.sampled_from(("", "", "once")),
    }
)


def observed(story: Lifecycle, step: dict[str, Any]) -> list[PodSummary]:
    """Return the pods of the current attempt as a step describes them."""
    roles = ("worker-0", "worker-1", "chief-0", "ps-0", "evaluation-0")
    gangs = story.status.get("gangs", {})
    found = []
    for name, how in zip(roles, step["pods"], strict=True):
        if how is None:
            continue
        record = gangs.get("evaluation" if name.startswith("evaluation") else "training", {})
        attempt = record.get("replaced", {}).get(name, record.get("lastFullRestart", 0))
        letter, text, code, deleting = how
        fields: dict[str, Any] = {"message": text} if letter in "FP" else {}
        fields |= {"exit_code": code} if letter == "F" else {}
        fields |= {"reason": step["blocked"]} if letter == "P" else {}
        found.append(pod(f"{name}-r{attempt}" if attempt else name, letter, deleting=deleting, **fields))
    return found


def reconciled(story: Lifecycle, step: dict[str, Any]) -> Plan:
    """Reconcile the job once, as a step describes it."""
    attempt = story.status.get("gangs", {}).get("training", {}).get("attempt", 0)
    reports: dict[str, Any] = {
        "none": None,
        "plain": report(5, attempt=attempt),
        "launcher": launcher_report(attempt=attempt, waiting_for=step["waits"]),
        "failure": launcher_report(failure(1, message=step["cause"]), attempt=attempt, waiting_for=step["waits"]),
    }
    story.spec["worker"] = {"replicas": step["workers"]}
    story.spec["runPolicy"] = {**story.spec.get("runPolicy", {}), "suspend": step["suspend"]}
    changes: dict[str, Any] = {name: step[name] for name in ("generation", "create_error", "restarted_at")}
    changes |= {"template": step["template"]} if step["template"] else {}
    return story.reconcile(observed(story, step), step["after"], report=reports[step["report"]], **changes)


def parts(text: str) -> list[str]:
    """Return the clauses and half sentences of a message that are long enough to be read twice."""
    return [part for part in re.split(r"; |: ", text) if len(part.split()) > 1]


def texts(value: Any) -> list[str]:
    """Return every text in a JSON value."""
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return [text for each in inner for text in texts(each)]


def check(story: Lifecycle, todo: Plan) -> None:
    messages = [c["message"] for c in story.status.get("conditions", ())] + [e.message for e in todo.events]
    for message in messages:
        found = parts(message)
        assert sorted(set(found)) == sorted(found), message
    for text in [*texts(story.status), *messages]:
        bad = [c for c in text if unicodedata.category(c) in {"Cc", "Cf", "Zl", "Zp", "Cs"} and c not in "\n\t"]
        assert not bad, text


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(spec=st.sampled_from(SPECS), steps=st.lists(STEP, max_size=6))
def test_no_message_repeats_itself_or_has_control_characters(spec: dict[str, Any], steps: list[dict[str, Any]]) -> None:
    story = Lifecycle(**spec)
    story.reconcile()
    for step in steps:
        check(story, reconciled(story, step))
