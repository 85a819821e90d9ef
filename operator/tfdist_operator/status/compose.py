"""Composes the status to store, and decides whether it is worth a write."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tfdist.render.gang import GangName, gangs
from tfdist_operator.observed.gang import GangState
from tfdist_operator.observed.view import JobView
from tfdist_operator.status.conditions import Condition, merge
from tfdist_operator.status.counts import replica_counts
from tfdist_operator.status.phase import has_trained, is_given_up, is_terminal, phase_of
from tfdist_operator.status.summary import summary

MAX_FAILURES: Final = 10

_VOLATILE: Final = frozenset({"replicas", "progress", "evaluation", "summary"})
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
        result["failures"] = _newest([*stored.get("failures", ()), *changes.failures])
    if progress:
        result["progress"] = dict(progress)
    result["observedGeneration"] = view.generation
    result["phase"] = str(phase_of(result))
    if view.job is not None:
        result["replicas"] = replica_counts(gangs(view.job), states, stored.get("replicas", {}))
    result["summary"] = _summary(view, states, result)
    return result


def significant(stored: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Return whether `new` says more than moved counters."""
    return _without_volatile(stored) != _without_volatile(new)


def _summary(view: JobView, states: Sequence[GangState], status: Mapping[str, Any]) -> dict[str, str]:
    evaluation = view.job.spec.evaluation if view.job else None
    return summary(status, evaluation.metric if evaluation else "accuracy", _active_roles(states, status))


def _active_roles(states: Sequence[GangState], status: Mapping[str, Any]) -> set[str]:
    """Return the roles of the gangs that are at work: not of those that are done, given up, or yet to come."""
    if is_terminal(status):
        return set()
    trained = has_trained(status)
    done = {GangName.TRAINING: trained, GangName.EVALUATION: False, GangName.EVALUATOR: is_given_up(status)}
    working = (s for s in states if not done[s.gang.name] and not s.leader_succeeded)
    return {str(m.role) for s in working for m in s.gang.members}


def _newest(failures: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the newest failures; those that followed from others go first, so that causes are remembered longest."""
    surplus = len(failures) - MAX_FAILURES
    followed = [i for i, f in enumerate(failures) if not f["rootCause"]][: max(0, surplus)]
    return [f for i, f in enumerate(failures) if i not in followed][-MAX_FAILURES:]


def _attempts(records: Mapping[str, Any]) -> dict[str, Any]:
    """Return what people want to know of attempts: those of training, or of the evaluation where there is none."""
    record = records.get("training") or records.get("evaluation")
    if record is None:
        return {}
    counts = {name: record.get(name, 0) for name in ("counted", "uncounted", "sinceCheckpoint")}
    return {"attempt": record["attempt"], "restarts": counts}


def _without_volatile(status: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a status whose changes are worth a write of their own.

    That one more replica has ended with success is not: the end of the job follows, or nothing does. Nor is that an
    evaluation gang runs: a look that comes before it is written makes a lost member anew in the same attempt.
    """
    rest = {k: v for k, v in status.items() if k not in _VOLATILE}
    records = rest.get("gangs", {}).items()
    rest["gangs"] = {name: {k: v for k, v in r.items() if k not in _QUIET} for name, r in records}
    return rest


_QUIET: Final = frozenset({"completed", "ran", "starting"})
