"""Progress and evaluation results: from reports while replicas run, and from termination messages at the end."""

from collections.abc import Iterable
from typing import Any

from tfdist.api.export import ExportedModel
from tfdist.api.status import CheckpointStatus, EvaluationResult, EvaluationStatus, ExportResult, ExportStatus, Progress
from tfdist.contract import ExitCode, replica_name
from tfdist.contract_reports import CheckpointReport, EvaluationReport, ProgressReport, SlowReplica, TerminationMessage
from tfdist.observed.job_view import TimestampedReport
from tfdist.observed.pod import PodState, PodSummary
from tfdist.progress import eta_seconds, percent
from tfdist.render.gang import Gang, Member
from tfdist.termination import termination_message


def progress_of(report: TimestampedReport, stored: Progress, gang: Gang) -> Progress:
    """Return `status.progress` for a report of `gang`; of the stored fields it keeps only a missing last checkpoint."""
    content = report.content
    slow = slow_replica_of(content, gang)
    checkpoint = content.last_checkpoint
    return Progress.model_construct(
        step=content.step,
        total_steps=content.total_steps,
        percent=percent(content.step, content.total_steps, content.percent),
        epoch=content.epoch,
        eta_seconds=eta_seconds(content),
        examples_per_second=_rounded(content.examples_per_second),
        step_time_millis=_rounded(content.step_time_millis),
        metrics=dict(content.metrics) if content.metrics else None,
        last_checkpoint=_checkpoint(checkpoint) if checkpoint else stored.last_checkpoint,
        slowest_replica=replica_name(slow.role, slow.index) if slow else None,
        reported_at=report.read_at,
    )


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


def _checkpoint(checkpoint: CheckpointReport) -> CheckpointStatus:
    return CheckpointStatus.model_construct(**checkpoint.model_dump(mode="json"))


def slow_replica_of(report: ProgressReport, gang: Gang) -> SlowReplica | None:
    """Return the slow replica in a report; None without one, or if `gang` does not have it: pods are untrusted."""
    slow = report.slow_replica
    return slow if slow is not None and Member(slow.role, slow.index) in gang.members else None


def ended_progress(stored: Progress, gang: Gang, pods: Iterable[PodSummary]) -> Progress | None:
    """Return `status.progress` after the last leader of training has ended; None while it runs, or without a message.

    The newest checkpoint is often the one that replicas save when they are terminated: no report has it, since they
    end before the next poll. Pods that are older than the last leader do not count: training may have been reset.
    """
    roles = {member.role for member in gang.members}
    of_training = [p for p in pods if p.role in roles]
    leaders = [p for p in of_training if (p.role, p.index) == (gang.leader.role, gang.leader.index)]
    leader = max(leaders, key=lambda p: p.attempt, default=None)
    if leader is None or not leader.ended:
        return None
    last_pods = [p for p in of_training if p.ended and p.attempt >= leader.attempt]
    messages = {p.name: message for p in last_pods if (message := termination_message(p.message)) is not None}
    if not messages:
        return None
    leader_message = messages.get(leader.name)
    has_saved = leader.state is PodState.SUCCEEDED or leader.exit_code == ExitCode.PREEMPTED
    result = final_progress(stored, leader_message) if leader_message and has_saved else stored
    checkpoints = [m.last_checkpoint for m in messages.values() if m.last_checkpoint is not None]
    newest = max(checkpoints, key=lambda c: c.step, default=None)
    stored_step = result.last_checkpoint.step if result.last_checkpoint else -1
    if newest is None or newest.step <= stored_step:
        return result
    return result.model_copy(update={"last_checkpoint": _checkpoint(newest)})


def final_progress(stored: Progress, message: TerminationMessage) -> Progress:
    """Return `status.progress` after the end: the last report, updated from the termination message."""
    changes: dict[str, Any] = {"eta_seconds": None, "slowest_replica": None}
    if message.step is not None and message.step != stored.step:
        changes["epoch"] = None  # of an earlier step
    if message.step is not None:
        total = stored.total_steps if message.total_steps is None else message.total_steps
        completed_percent = percent(message.step, total, message.percent)
        changes |= {"step": message.step} | ({"percent": completed_percent} if completed_percent is not None else {})
    for name in ("epoch", "total_steps"):
        if getattr(message, name) is not None:
            changes[name] = getattr(message, name)
    if message.metrics:
        changes["metrics"] = dict(message.metrics)
    if message.last_checkpoint is not None:
        changes["last_checkpoint"] = _checkpoint(message.last_checkpoint)
    return stored.model_copy(update=changes)


def evaluation_of(
    stored: EvaluationStatus,
    report: ProgressReport | None,
    evaluator: TerminationMessage | None,
    gang: TerminationMessage | None,
) -> EvaluationStatus:
    """Return `status.evaluation`; fields without a new value stay as stored.

    Args:
        stored: the stored `status.evaluation`.
        report: the last report of the evaluator.
        evaluator: the termination message of an evaluator that evaluated the last checkpoint.
        gang: the termination message of the leader of the evaluation gang.
    """
    reports: dict[str, EvaluationReport | None] = {}
    if report is not None:
        reports |= {"latest": report.evaluation, "best": report.best_evaluation, "final": report.final_evaluation}
    if evaluator is not None and evaluator.evaluation is not None:
        reports |= {"latest": evaluator.evaluation, "final": evaluator.evaluation}
        reports["best"] = evaluator.best_evaluation or reports.get("best")
    if gang is not None and gang.evaluation is not None:
        reports["final"] = gang.evaluation
    return _with_results(stored, reports)


def script_evaluation_of(
    stored: EvaluationStatus, report: ProgressReport | None, message: TerminationMessage | None
) -> EvaluationStatus:
    """Return `status.evaluation` of a job without an evaluator, in which `fit` of a script evaluates.

    Args:
        stored: the stored `status.evaluation`.
        report: the last report of the leader of training.
        message: the termination message of the leader of a training that succeeded.
    """
    reports: dict[str, EvaluationReport | None] = {}
    if report is not None:
        reports |= {"latest": report.evaluation, "best": report.best_evaluation}
    if message is not None and message.evaluation is not None:
        reports |= {"latest": message.evaluation, "best": message.best_evaluation or reports.get("best")}
        checkpoint_step = message.last_checkpoint.step if message.last_checkpoint else None
        if message.evaluation.step in {message.step, checkpoint_step}:
            reports["final"] = message.evaluation
    return _with_results(stored, reports)


def exports_of(stored: ExportStatus, directory: str, messages: Iterable[TerminationMessage | None]) -> ExportStatus:
    """Return `status.export` from the termination messages of leaders that succeeded.

    Args:
        stored: the stored `status.export`.
        directory: of the exports, from the specification; pods are untrusted.
        messages: of training and its evaluator.
    """
    results = {
        export.which.lower(): ExportResult.model_construct(
            directory=f"{directory}/{export.which.lower()}", step=export.step
        )
        for message in messages
        if message is not None
        for export in message.exports
        if export.which in set(ExportedModel)
    }
    return stored.model_copy(update=results)


def _with_results(stored: EvaluationStatus, reports: dict[str, EvaluationReport | None]) -> EvaluationStatus:
    results = {name: _result(result) for name, result in reports.items() if result}
    return stored.model_copy(update=results)


def _result(report: EvaluationReport) -> EvaluationResult:
    return EvaluationResult.model_construct(**report.model_dump(mode="json"))
