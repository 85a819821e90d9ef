"""A local run in the form of a job's `.status`: what reads the one reads the other; pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tfdist import contract
from tfdist.api.status import (
    CheckpointStatus,
    Condition,
    ConditionType,
    EvaluationResult,
    EvaluationStatus,
    Failure,
    JobPhase,
    Progress,
    ReplicaCounts,
    Restarts,
    TFDistJobStatus,
)
from tfdist.contract import Role
from tfdist.contract_reports import EvaluationReport, ProgressReport
from tfdist.local import progress


@dataclass(slots=True)
class Facts:
    """What a run knows of itself. `codes` are the exit codes so far, `running` the names of the others."""

    replicas: Mapping[Role, Sequence[str]]
    phase: JobPhase = JobPhase.PENDING
    running: Sequence[str] = ()
    codes: dict[str, int] = field(default_factory=dict)
    report: ProgressReport | None = None
    latest: EvaluationReport | None = None
    best: EvaluationReport | None = None
    final: EvaluationReport | None = None
    evaluation_problem: str = ""
    failures: list[Failure] = field(default_factory=list)
    restarts: contract.Restarts = field(default_factory=contract.Restarts)
    message: str = ""
    reason: str = ""
    started: datetime | None = None
    ended: datetime | None = None


def status(facts: Facts, now: datetime) -> dict[str, Any]:
    """Return the status as JSON."""
    made = TFDistJobStatus(
        phase=facts.phase,
        conditions=_conditions(facts, rfc3339(now)),
        replicas={role: _counts(names, facts) for role, names in facts.replicas.items()},
        attempt=0,
        restarts=Restarts(**facts.restarts.model_dump(include=set(Restarts.model_fields))),
        progress=_progress(facts.report, now) if facts.report else None,
        evaluation=_evaluation(facts),
        failures=facts.failures[-10:] or None,
        start_time=rfc3339(facts.started) if facts.started else None,
        completion_time=rfc3339(facts.ended) if facts.ended else None,
    )
    return made.model_dump(mode="json", by_alias=True, exclude_none=True)


def rfc3339(time: datetime) -> str:
    """Return a time as Kubernetes writes it."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _counts(names: Sequence[str], facts: Facts) -> ReplicaCounts:
    running = sum(name in facts.running for name in names)
    succeeded = sum(facts.codes.get(name) == 0 for name in names)
    failed = sum(facts.codes.get(name, 0) != 0 for name in names)
    return ReplicaCounts(
        desired=len(names),
        pending=len(names) - running - succeeded - failed,
        running=running,
        ready=running,
        succeeded=succeeded,
        failed=failed,
    )


def _progress(report: ProgressReport, now: datetime) -> Progress:
    saved = report.last_checkpoint
    return Progress(
        step=report.step,
        total_steps=report.total_steps,
        percent=progress.percent(report),
        epoch=report.epoch,
        eta_seconds=progress.eta_seconds(report),
        examples_per_second=report.examples_per_second,
        step_time_millis=report.step_time_millis,
        metrics=report.metrics or None,
        last_checkpoint=CheckpointStatus(**saved.model_dump()) if saved else None,
        reported_at=rfc3339(now),
    )


def _evaluation(facts: Facts) -> EvaluationStatus | None:
    if facts.latest is None and facts.final is None:
        return None
    reports = (facts.latest, facts.best, facts.final)
    latest, best, final = (EvaluationResult(**report.model_dump()) if report else None for report in reports)
    return EvaluationStatus(latest=latest, best=best, final=final)


def _conditions(facts: Facts, now: str) -> list[Condition] | None:
    found = []
    if facts.final or facts.evaluation_problem:
        problem = facts.evaluation_problem
        reason = "EvaluationFailed" if problem else "Evaluated"
        found.append(_condition(ConditionType.EVALUATED, not problem, reason, problem, now))
    if facts.phase in {JobPhase.SUCCEEDED, JobPhase.FAILED, JobPhase.SUSPENDED}:
        found.append(_condition(ConditionType(facts.phase), True, facts.reason or "Completed", facts.message, now))
    return found or None


def _condition(kind: ConditionType, holds: bool, reason: str, message: str, now: str) -> Condition:
    return Condition(
        type=kind,
        status="True" if holds else "False",
        reason=reason,
        message=message,
        observed_generation=1,
        last_transition_time=now,
    )
