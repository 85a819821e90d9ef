"""Reports and termination messages by chance: good ones of which some values are anything that JSON can hold."""

import json
from typing import Any

from hypothesis import strategies as st

Json = dict[str, Any]

_TIME = "2030-01-02T03:04:05Z"
_RESULT: Json = {"step": 9, "checkpoint": "/c/9", "metrics": {"accuracy": 0.5}, "examples": 10, "time": _TIME}
_FAILURE: Json = {
    "id": "0-18c-1",
    "round": 1,
    "role": "worker",
    "index": 1,
    "exitCode": 137,
    "signal": 9,
    "reason": "Crash",
    "message": "killed",
    "stacks": "File x",
    "counted": True,
    "rootCause": True,
    "time": _TIME,
}
_RESTARTS: Json = {
    "counted": 1,
    "uncounted": 1,
    "sinceCheckpoint": 1,
    "uncountedSinceCheckpoint": 1,
    "checkpointStep": 7,
}
_MEMBER: Json = {"role": "worker", "index": 0, "alive": True, "phase": "training", "step": 5}
GANG: Json = {
    "members": [_MEMBER],
    "size": 2,
    "alive": 1,
    "phases": {"training": 2},
    "failures": [_FAILURE],
    "restarts": _RESTARTS,
    "round": 3,
    "waitingFor": ["worker-1"],
}
REPORT: Json = {
    "schemaVersion": 1,
    "role": "worker",
    "index": 0,
    "attempt": 0,
    "round": 1,
    "phase": "training",
    "step": 5,
    "totalSteps": 10,
    "epoch": 1,
    "examples": 50,
    "examplesPerSecond": 12.5,
    "stepTimeMillis": 100.0,
    "inputWaitMillis": 1.0,
    "metrics": {"loss": 0.5},
    "evaluation": _RESULT,
    "bestEvaluation": _RESULT,
    "finalEvaluation": _RESULT,
    "lastCheckpoint": {"step": 4, "path": "/c/4", "time": _TIME},
    "stepAt": _TIME,
    "gang": GANG,
    "waitingFor": [],
}
_END: Json = {"role": "worker", "index": 1, "round": 3, "reason": "RepeatedError", "restarts": _RESTARTS}
MESSAGE: Json = {
    "schemaVersion": 1,
    "reason": "Completed",
    "message": "done",
    "step": 10,
    "attempt": 0,
    "metrics": {"loss": 0.1},
    "lastCheckpoint": {"step": 4, "path": "/c/4", "time": _TIME},
    "evaluation": _RESULT,
    "bestEvaluation": _RESULT,
    "gangEnd": _END,
}

_NUMBERS = st.one_of(
    st.integers(),
    st.sampled_from((-1, 0, 2**31, 2**53, 2**63, 2**64, 10**400)),
    st.floats(),
    st.sampled_from((1e308, -1e308, 5e-324)),
)
_TEXTS = st.one_of(
    st.text(max_size=20),
    st.sampled_from(("x" * 6000, "\x1b[2J", "\u202e", "a\nb", "\0", "Other", "2030-13-01T00:00:00Z", "../../x")),
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), _NUMBERS, _TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=5), st.dictionaries(_TEXTS, inner, max_size=5)),
    max_leaves=12,
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, item in items for place in ((*path, key), *_places(item, (*path, key)))]


def _spoiled(good: Json, changes: list[tuple[tuple[Any, ...], Any]]) -> str:
    """Return the JSON of `good` in which some values are others, as any program might write it."""
    result: Any = json.loads(json.dumps(good))
    for place, value in changes:
        target = result
        try:
            for key in place[:-1]:
                target = target[key]
            target[place[-1]] = value
        except (KeyError, IndexError, TypeError):
            continue  # another change has put something else there
    return json.dumps(result)


_EXTREMES = (None, -1, 2**64, 10**400, float("nan"), float("inf"))
_LONG = (None, None, "x" * 6000, "a\nb\x1b[2J")
_REQUIRED = {("index",), ("attempt",), ("role",), ("phase",)}
"""A report without one of these is rejected as a whole."""


def _at(value: Any, place: tuple[Any, ...]) -> Any:
    for key in place:
        value = value[key]
    return value


def _flood(good: Json, values: tuple[Any, ...], kind: Any) -> st.SearchStrategy[list[tuple[tuple[Any, ...], Any]]]:
    """Return changes after which about half of the values of one kind are the same extreme one; None for no change."""
    places = [place for place in _places(good) if place not in _REQUIRED and isinstance(_at(good, place), kind)]
    chosen = st.lists(st.booleans(), min_size=len(places), max_size=len(places))
    return st.builds(
        lambda value, uses: [(p, value) for p, use in zip(places, uses, strict=True) if use and value is not None],
        st.sampled_from(values),
        chosen,
    )


def _of(good: Json) -> st.SearchStrategy[str]:
    change = st.tuples(st.sampled_from(_places(good)), VALUES)
    numbers, texts = _flood(good, _EXTREMES, (int, float)), _flood(good, _LONG, str)
    changes = st.tuples(numbers, texts, st.lists(change, max_size=4))
    return changes.map(lambda lists: _spoiled(good, [each for some in lists for each in some]))


REPORTS = _of(REPORT)
"""Bodies of `GET /v1/progress`."""
MESSAGES = st.one_of(_of(MESSAGE), VALUES.map(json.dumps), st.text(max_size=200))
"""Termination messages."""
BODIES = st.one_of(
    REPORTS.map(str.encode), VALUES.map(lambda value: json.dumps(value).encode()), st.binary(max_size=300)
)
"""Bodies of anything."""
