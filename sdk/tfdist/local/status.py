"""State of a local run in the form of a job's `.status`, so that a reader of one reads the other; pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
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
from tfdist.progress import eta_seconds, percent
from tfdist.timestamps import rfc3339


@dataclass(slots=True)
class RunState:
    """Observed state of a run; `codes` are the exit codes of terminated replicas, `running` names the others."""

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


def status(state: RunState, now: datetime) -> dict[str, Any]:
    """Return the JSON of the status."""
    made = TFDistJobStatus(
        phase=state.phase,
        conditions=_conditions(state, rfc3339(now)),
        replicas={role: _counts(names, state) for role, names in state.replicas.items()},
        attempt=0,
        restarts=Restarts(**state.restarts.model_dump(include=set(Restarts.model_fields))),
        progress=_progress(state.report, now) if state.report else None,
        evaluation=_evaluation(state),
        failures=state.failures[-10:] or None,
        start_time=rfc3339(state.started) if state.started else None,
        completion_time=rfc3339(state.ended) if state.ended else None,
    )
    return made.model_dump(mode="json", by_alias=True, exclude_none=True)


def _counts(names: Sequence[str], state: RunState) -> ReplicaCounts:
    running = sum(name in state.running for name in names)
    succeeded = sum(state.codes.get(name) == 0 for name in names)
    failed = sum(state.codes.get(name, 0) != 0 for name in names)
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
        percent=percent(report.step, report.total_steps),
        epoch=report.epoch,
        eta_seconds=eta_seconds(report),
        examples_per_second=report.examples_per_second,
        step_time_millis=report.step_time_millis,
        metrics=report.metrics or None,
        last_checkpoint=CheckpointStatus(**saved.model_dump()) if saved else None,
        reported_at=rfc3339(now),
    )


def _evaluation(state: RunState) -> EvaluationStatus | None:
    if state.latest is None and state.final is None:
        return None
    reports = (state.latest, state.best, state.final)
    latest, best, final = (EvaluationResult(**report.model_dump()) if report else None for report in reports)
    return EvaluationStatus(latest=latest, best=best, final=final)


def _conditions(state: RunState, now: str) -> list[Condition] | None:
    found = []
    if state.final or state.evaluation_problem:
        problem = state.evaluation_problem
        reason = "EvaluationFailed" if problem else "Evaluated"
        found.append(_condition(ConditionType.EVALUATED, not problem, reason, problem, now))
    if state.phase in {JobPhase.SUCCEEDED, JobPhase.FAILED, JobPhase.SUSPENDED}:
        found.append(_condition(ConditionType(state.phase), True, state.reason or "Completed", state.message, now))
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
