"""Progress and results of the programs of a job, from their reports and termination messages."""

from collections.abc import Mapping

from tfdist.api.status import (
    ConditionType,
    EvaluationStatus,
    ExportStatus,
    FunctionResult,
    JobPhase,
    Progress,
    TFDistJobStatus,
)
from tfdist.contract_reports import TerminationMessage
from tfdist.observed.gang_state import GangState
from tfdist.observed.job_view import JobView, TimestampedReport
from tfdist.planner.context import PlanContext
from tfdist.render.gang import GangName
from tfdist.render.replica_job import export_directory
from tfdist.status.conditions import is_true
from tfdist.status.phase import is_terminal, training_succeeded
from tfdist.status.progress import ended_progress, evaluation_of, exports_of, progress_of, script_evaluation_of
from tfdist.termination import termination_message
from tfdist.timestamps import parse_time

States = Mapping[GangName, GangState]


def polled_leader(status: TFDistJobStatus, states: States) -> str:
    """Return the name of the pod that leads training, or the evaluation after it; "" if neither runs."""
    if is_true(status, ConditionType.RUNNING):
        return _leader(states.get(GangName.TRAINING))
    return _leader(states.get(GangName.EVALUATION)) if status.phase is JobPhase.EVALUATING else ""


def polled_evaluator(status: TFDistJobStatus, states: States) -> str:
    """Return the name of the evaluator's pod; "" without one, and if the job has finished."""
    return "" if is_terminal(status) else _leader(states.get(GangName.EVALUATOR))


def _leader(state: GangState | None) -> str:
    return state.leader.name if state and state.leader else ""


def progress(view: JobView, training: GangState | None) -> Progress:
    """Return `status.progress`: from termination messages if the last leader has ended, else from its report."""
    stored = view.status.progress or Progress()
    if training is None:
        return stored
    ended = ended_progress(stored, training.gang, view.pods)
    if ended is not None:
        return ended
    report = training_report(view, training)
    if report is not None:
        return progress_of(report, stored, training.gang)
    return Progress() if _is_lost(view, stored, training) else stored


def _is_lost(view: JobView, stored: Progress, training: GangState) -> bool:
    """Return whether the stored progress belongs to an earlier attempt, from which no checkpoint restores it."""
    if view.job is None or view.job.spec.checkpoint is not None or training.leader is None:
        return False
    if training_succeeded(view.status) or stored.step is None or stored.last_checkpoint is not None:
        return False
    created, reported = training.leader.created_at, stored.reported_at
    return bool(created and reported) and parse_time(created) > parse_time(reported or created)


def training_report(view: JobView, training: GangState | None) -> TimestampedReport | None:
    """Return the report of the leader of training while it runs."""
    leader = training.leader if training else None
    if view.runtime.report is None or leader is None or training_succeeded(view.status):
        return None
    return view.runtime.report if view.runtime.report.content.attempt == leader.attempt else None


def evaluation(view: JobView, states: States) -> EvaluationStatus:
    """Return `status.evaluation`: from the evaluator's report and the termination messages of completed gangs.

    Without an evaluator, a script may evaluate while it trains.
    """
    stored = view.status.evaluation or EvaluationStatus()
    messages = (_termination_message(states, name) for name in (GangName.EVALUATOR, GangName.EVALUATION))
    status = evaluation_of(stored, view.runtime.evaluated, *messages)
    if {GangName.EVALUATOR, GangName.EVALUATION} & states.keys():
        return status
    report = training_report(view, states.get(GangName.TRAINING))
    return script_evaluation_of(
        status, report.content if report else None, _termination_message(states, GangName.TRAINING)
    )


def exports(context: PlanContext, states: States) -> ExportStatus:
    """Return `status.export`, from the termination messages of completed gangs."""
    stored = context.view.status.export or ExportStatus()
    directory = None if context.view.problems else export_directory(context.job)
    if directory is None:
        return stored
    messages = (_termination_message(states, name) for name in (GangName.TRAINING, GangName.EVALUATOR))
    return exports_of(stored, directory, messages)


def function_result(view: JobView, states: States) -> FunctionResult | None:
    """Return `status.functionResult`, from the termination message of the leader of training."""
    message = _termination_message(states, GangName.TRAINING)
    if message is None or message.returned is None:
        return view.status.function_result
    return FunctionResult(value=message.returned.value, problem=message.returned.problem)


def _termination_message(states: States, gang: GangName) -> TerminationMessage | None:
    """Return the termination message of the leader of a gang that succeeded."""
    state = states.get(gang)
    return termination_message(state.leader.message) if state and state.leader_succeeded and state.leader else None
