"""Progress and evaluation results: from reports while replicas run, and from termination messages at the end."""

from collections.abc import Iterable, Mapping
from typing import Any

from tfdist.api.export import ExportedModel
from tfdist.contract import ExitCode, replica_name
from tfdist.contract_reports import EvaluationReport, ProgressReport, SlowReplica, TerminationMessage
from tfdist.observed.job_view import TimestampedReport
from tfdist.observed.pod import PodState, PodSummary
from tfdist.progress import eta_seconds, percent
from tfdist.render.gang import Gang, Member
from tfdist.termination import termination_message


def progress_of(report: TimestampedReport, stored: Mapping[str, Any], gang: Gang) -> dict[str, Any]:
    """Return `status.progress` for a report of `gang`; of fields that it lacks, only the last checkpoint is kept."""
    content = report.content
    fields = content.model_dump(mode="json", by_alias=True, exclude_none=True, include=_COPIED)
    for name in ("examplesPerSecond", "stepTimeMillis"):
        if name in fields:
            fields[name] = round(fields[name], 1)
    fields["percent"] = percent(content.step, content.total_steps, content.percent)
    fields["etaSeconds"] = eta_seconds(content)
    slow = slow_replica_of(content, gang)
    fields["slowestReplica"] = replica_name(slow.role, slow.index) if slow else None
    fields["reportedAt"] = report.read_at
    known = {k: v for k, v in stored.items() if k == "lastCheckpoint"}
    return known | {k: v for k, v in fields.items() if v not in (None, {})}


def slow_replica_of(report: ProgressReport, gang: Gang) -> SlowReplica | None:
    """Return the slow replica in a report; None without one, or if `gang` does not have it: pods are untrusted."""
    slow = report.slow_replica
    return slow if slow is not None and Member(slow.role, slow.index) in gang.members else None


def ended_progress(stored: dict[str, Any], gang: Gang, pods: Iterable[PodSummary]) -> dict[str, Any] | None:
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
    last = [p for p in of_training if p.ended and p.attempt >= leader.attempt]
    messages = {p.name: message for p in last if (message := termination_message(p.message)) is not None}
    if not messages:
        return None
    own = messages.get(leader.name)
    saved = leader.state is PodState.SUCCEEDED or leader.exit_code == ExitCode.PREEMPTED
    result = final_progress(stored, own) if own and saved else dict(stored)
    checkpoints = [m.last_checkpoint for m in messages.values() if m.last_checkpoint is not None]
    newest = max(checkpoints, key=lambda c: c.step, default=None)
    if newest is not None and newest.step > result.get("lastCheckpoint", {}).get("step", -1):
        result["lastCheckpoint"] = newest.model_dump(mode="json", by_alias=True, exclude_none=True)
    return result


def final_progress(stored: dict[str, Any], message: TerminationMessage) -> dict[str, Any]:
    """Return `status.progress` after the end: the last report, updated from the termination message."""
    result = dict(stored)
    if message.step is not None and message.step != result.get("step"):
        result.pop("epoch", None)  # of an earlier step
    if message.epoch is not None:
        result["epoch"] = message.epoch
    if message.total_steps is not None:
        result["totalSteps"] = message.total_steps
    if message.step is not None:
        result["step"] = message.step
        done = percent(message.step, result.get("totalSteps"), message.percent)
        result |= {"percent": done} if done is not None else {}
    if message.metrics:
        result["metrics"] = dict(message.metrics)
    if message.last_checkpoint is not None:
        result["lastCheckpoint"] = message.last_checkpoint.model_dump(mode="json", by_alias=True, exclude_none=True)
    result.pop("etaSeconds", None)
    result.pop("slowestReplica", None)
    return result


def evaluation_of(
    stored: Mapping[str, Any],
    report: ProgressReport | None,
    evaluator: TerminationMessage | None,
    gang: TerminationMessage | None,
) -> dict[str, Any]:
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
    return _updated(stored, reports)


def script_evaluation_of(
    stored: Mapping[str, Any], report: ProgressReport | None, message: TerminationMessage | None
) -> dict[str, Any]:
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
        saved = message.last_checkpoint.step if message.last_checkpoint else None
        if message.evaluation.step in {message.step, saved}:
            reports["final"] = message.evaluation
    return _updated(stored, reports)


def exports_of(
    stored: Mapping[str, Any], directory: str, messages: Iterable[TerminationMessage | None]
) -> dict[str, Any]:
    """Return `status.export` from the termination messages of leaders that succeeded.

    Args:
        stored: the stored `status.export`.
        directory: of the exports, from the specification; pods are untrusted.
        messages: of training and its evaluator.
    """
    found = {
        each.which.lower(): {"directory": f"{directory}/{each.which.lower()}", "step": each.step}
        for message in messages
        if message is not None
        for each in message.exports
        if each.which in set(ExportedModel)
    }
    return {**stored, **found}


def _updated(stored: Mapping[str, Any], reports: Mapping[str, EvaluationReport | None]) -> dict[str, Any]:
    found = {
        name: result.model_dump(mode="json", by_alias=True, exclude_none=True)
        for name, result in reports.items()
        if result
    }
    return {**stored, **found}


_COPIED = {
    "step",
    "total_steps",
    "epoch",
    "examples_per_second",
    "step_time_millis",
    "metrics",
    "last_checkpoint",
}
