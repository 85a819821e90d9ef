"""What training was asked for, by `training.export` and `checkpoint`, and has not left when it ended with exit code 0.

Only a program knows whether it has exported and saved, and it reports that in its termination message. A pod whose end
is not known, and a message that was cut, decide nothing: training counts as done.
"""

from tfdist.api.export import ExportedModel
from tfdist.api.status import ConditionType, ExportStatus
from tfdist.contract import ExitCode, Task
from tfdist.contract_reports import COMPLETED, ProgressReport, TerminationMessage
from tfdist.observed.gang_state import GangState
from tfdist.observed.pod import PodSummary
from tfdist.planner import reported
from tfdist.planner.builder import PlanBuilder
from tfdist.planner.context import PlanContext
from tfdist.planner.plan import Event, GangFailure
from tfdist.reasons import ConditionReason, EventReason
from tfdist.render.gang import GangName
from tfdist.status.conditions import Condition
from tfdist.status.phase import training_succeeded
from tfdist.termination import termination_message

_NO_REPORT = (
    "the script did not call fit of Keras 3, ended by os._exit or in a process that was killed, or its image lacks "
    "tfdist-trainer or has a Keras that tfdist-trainer does not support"
)
_IGNORED_FAILURE = "its script has failed ({}), but the command that runs it ended with exit code 0"
_COMMAND_REMEDY = "make the command exit with the script's exit code, in a shell by `exec` or `set -eo pipefail`"
_NO_FIT = "no call of fit of Keras 3 returned in the process of the script"
_SCRIPT_REMEDY = (
    "train with fit of Keras 3 in the process that the job starts, let it end by returning or by sys.exit, and "
    "install tfdist-trainer if you build your own image"
)
_PROGRAM_REMEDY = "run the trainer of this version (python -m tfdist_trainer) in the image and command"


def missing_of_training(context: PlanContext, training: GangState) -> GangFailure | None:
    """Return why a training that succeeded has not left what it was asked for; None if it has, or if that is unknown.

    Args:
        context: of the job.
        training: the gang that trained.
    """
    leader = training.leader
    if leader is None or not _is_known(leader):
        return None
    return _missing_export(context, leader) or _missing_checkpoint(context, training, leader)


def missing_best_model(context: PlanContext, exports: ExportStatus, end: str) -> GangFailure | None:
    """Return that a program's evaluator has not exported the best model; None if it has, or need not, or is unknown.

    Args:
        context: of the job.
        exports: `status.export`.
        end: how the evaluator has ended, for the message.
    """
    evaluator = context.states.get(GangName.EVALUATOR)
    if evaluator is None or not context.spec.runs_program or ExportedModel.BEST not in _requested(context):
        return None
    leader = evaluator.leader
    if exports.best or (evaluator.leader_succeeded and (leader is None or not _is_known(leader))):
        return None
    text = (
        f"the best model of training.export is missing: {evaluator.gang.leader.name} {end}, but exports the model "
        "only after it has evaluated the last checkpoint; raise evaluation.deadlineSeconds, or correct what ended it"
    )
    return GangFailure(ConditionReason.EXPORT_MISSING, text)


def report_what_had_no_effect(context: PlanContext, builder: PlanBuilder, training: GangState) -> None:
    """Set the condition and record the event of a training that hides an error, or ignored a request, at its end."""
    leader = training.leader
    if leader is None or training_succeeded(context.view.status) or not _is_known(leader):
        return
    if _has_failed(termination_message(leader.message)):
        text = f"{leader.replica} (pod {leader.name}) has ended with exit code 0: {_why(leader)}; {_COMMAND_REMEDY}"
        _degrade(builder, training, ConditionReason.FAILURE_IGNORED, EventReason.FAILURE_IGNORED, text)
        return
    versions = _untested_versions(leader)
    if versions:
        text = f"fit was left to Keras: the image has {versions}, which the trainer was not tested with"
        _degrade(builder, training, ConditionReason.UNTESTED_VERSIONS, EventReason.UNTESTED_VERSIONS, text)
        return
    if context.spec.checkpoint is None or context.runs_trainer(leader.role) or builder.progress().last_checkpoint:
        return
    text = (
        f"checkpoint had no effect: {leader.replica} (pod {leader.name}) reported no checkpoint, because "
        f"{_why(leader)}; ignore this if the script saves and restores its own checkpoints"
    )
    _degrade(builder, training, ConditionReason.CHECKPOINT_UNUSED, EventReason.CHECKPOINT_UNUSED, text)


def _untested_versions(leader: PodSummary) -> str | None:
    message = termination_message(leader.message)
    return message.untested_versions if message else None


def _degrade(builder: PlanBuilder, training: GangState, reason: ConditionReason, event: EventReason, text: str) -> None:
    builder.set_conditions(Condition(ConditionType.DEGRADED, True, reason, text))
    builder.record_event(Event(event, text, warning=True, identity=str(training.attempt)))


def _is_known(pod: PodSummary) -> bool:
    """Return whether a pod has ended with 0, and its termination message is whole: an ignored failure reports none."""
    is_cut = pod.message.lstrip().startswith("{") and termination_message(pod.message) is None
    return pod.ended and pod.exit_code == ExitCode.DONE and not is_cut


def _requested(context: PlanContext) -> list[ExportedModel]:
    training = context.spec.training
    return list(training.export.which) if training and training.export and context.spec.task is Task.TRAIN else []


def _missing_export(context: PlanContext, leader: PodSummary) -> GangFailure | None:
    exports = reported.exports(context, context.states)
    in_training = [m for m in _requested(context) if m is ExportedModel.FINAL or not context.spec.runs_program]
    missing = [model for model in in_training if getattr(exports, model.lower()) is None]
    if not missing:
        return None
    models = " and ".join(f"the {model.lower()} model" for model in missing)
    text = f"{leader.replica} (pod {leader.name}) ended with exit code 0 but did not export {models}"
    return GangFailure(ConditionReason.EXPORT_MISSING, f"{text}: {_explanation(context, leader, missing)}")


def _explanation(context: PlanContext, leader: PodSummary, missing: list[ExportedModel]) -> str:
    """Return the probable cause and the remedy."""
    if context.spec.runs_program:
        return f"a program other than the trainer ran; {_PROGRAM_REMEDY}, or remove training.export"
    message = termination_message(leader.message)
    if message is not None and message.exports and missing == [ExportedModel.BEST]:
        return (
            "fit saved no model as the best one; pass validation_data to fit, or remove Best from training.export.which"
        )
    return f"{_why(leader)}; {_remedy(leader)}, or remove training.export"


def _why(leader: PodSummary) -> str:
    message = termination_message(leader.message)
    if message is None:
        return _NO_REPORT
    return _IGNORED_FAILURE.format(message.message or message.reason) if _has_failed(message) else _NO_FIT


def _remedy(leader: PodSummary) -> str:
    return _COMMAND_REMEDY if _has_failed(termination_message(leader.message)) else _SCRIPT_REMEDY


def _has_failed(message: TerminationMessage | None) -> bool:
    """Return whether a script has not ended with 0, although its pod has."""
    return message is not None and message.reason != COMPLETED


def _missing_checkpoint(context: PlanContext, training: GangState, leader: PodSummary) -> GangFailure | None:
    """Return that a trainer which saves checkpoints has not saved the end of training.

    Without a termination message it did not come to its end, at which it saves the last step.
    """
    message, report = termination_message(leader.message), context.view.runtime.report
    content = report.content if report is not None and report.content.attempt == leader.attempt else None
    if context.spec.checkpoint is None or not (_saves(message) or _saves(content)):
        return None
    progress = reported.progress(context.view, training)
    last = progress.last_checkpoint
    if last is not None and (not _has_failed(message) if message else (progress.step or 0) <= last.step):
        return None
    saved = f"the last one is of step {last.step}, and training had reached step {progress.step}" if last else "none"
    text = (
        f"{leader.replica} (pod {leader.name}) ended with exit code 0 but did not save the end of its training in "
        f"checkpoint.directory ({saved}): {_why(leader) if message else _ENDED_EARLY}; {_remedy(leader)}"
    )
    return GangFailure(ConditionReason.CHECKPOINT_MISSING, text)


_ENDED_EARLY = "it ended by os._exit, or trained in a process that was killed"


def _saves(report: ProgressReport | TerminationMessage | None) -> bool:
    return report is not None and bool(report.saves_checkpoints)
