"""Composes the status to store, and decides whether it is worth a write."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tfdist.render.gang import gangs
from tfdist_operator.observed.gang import GangState
from tfdist_operator.observed.view import JobView
from tfdist_operator.status.conditions import Condition, merge
from tfdist_operator.status.counts import replica_counts
from tfdist_operator.status.phase import is_terminal, phase_of
from tfdist_operator.status.summary import summary

MAX_FAILURES: Final = 10

_VOLATILE: Final = frozenset({"replicas", "progress", "summary"})
"""What changes all the time: alone it is written at most every few seconds."""


@dataclass(frozen=True, slots=True)
class Changes:
    """What one look at a job changes in its status, beyond what is derived from its pods."""

    conditions: tuple[Condition, ...] = ()
    fields: Mapping[str, Any] = field(default_factory=dict)
    failures: tuple[Mapping[str, Any], ...] = ()


def compose(
    view: JobView, states: Sequence[GangState], changes: Changes, progress: Mapping[str, Any], now: str
) -> dict[str, Any]:
    """Return the whole status of a job. Equal input gives an equal result; nothing stored is forgotten."""
    stored = view.status
    result = {k: v for k, v in {**stored, **changes.fields}.items() if v is not None}
    result |= _attempts(result.get("gangs", {}))
    result["conditions"] = merge(stored.get("conditions", ()), changes.conditions, view.generation, now)
    if changes.failures:
        result["failures"] = [*stored.get("failures", ()), *changes.failures][-MAX_FAILURES:]
    if progress:
        result["progress"] = dict(progress)
    result["observedGeneration"] = view.generation
    result["phase"] = str(phase_of(result))
    if view.job is not None:
        all_gangs = gangs(view.job)
        result["replicas"] = replica_counts(all_gangs, states, stored.get("replicas", {}))
        result["summary"] = _summary(view, states, result)
    return result


def significant(stored: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Return whether `new` says more than moved counters."""
    return _without_volatile(stored) != _without_volatile(new)


def _summary(view: JobView, states: Sequence[GangState], status: Mapping[str, Any]) -> dict[str, str]:
    evaluation = view.job.spec.evaluation if view.job else None
    running = () if is_terminal(status) else states[-1:]
    active = {str(m.role) for state in running for m in state.gang.members}
    result = summary(
        status["replicas"],
        status.get("progress", {}),
        status.get("evaluation", {}),
        evaluation.metric if evaluation else "accuracy",
        active,
    )
    newest = max(reversed(status["conditions"]), key=lambda c: c["lastTransitionTime"], default={"message": ""})
    return result | ({"message": newest["message"]} if newest["message"] else {})


def _attempts(records: Mapping[str, Any]) -> dict[str, Any]:
    """Return what people want to know of attempts: those of training, or of the evaluation where there is none."""
    record = records.get("training") or records.get("evaluation")
    if record is None:
        return {}
    counts = {name: record.get(name, 0) for name in ("counted", "uncounted", "sinceCheckpoint")}
    return {"attempt": record["attempt"], "restarts": counts}


def _without_volatile(status: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a status whose changes are worth a write of their own.

    That one more replica has ended with success is not: the end of the job follows, or nothing does.
    """
    rest = {k: v for k, v in status.items() if k not in _VOLATILE}
    records = rest.get("gangs", {}).items()
    rest["gangs"] = {name: {k: v for k, v in r.items() if k not in _QUIET} for name, r in records}
    return rest


_QUIET: Final = frozenset({"completed", "starting"})
