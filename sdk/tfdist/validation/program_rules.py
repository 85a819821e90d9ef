"""Rules between the configuration of a bundled program and the rest of its job, which the trainer checks too."""

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any, Final

from tfdist import messages
from tfdist.api.v1 import Strategy, TFDistJob
from tfdist.contract import Role, Task
from tfdist.programs.batch_size import uneven_batch
from tfdist.render.gang import Gang, GangName, gangs
from tfdist.validation.errors import FieldError

if TYPE_CHECKING:
    from tfdist.programs.data import FilesConfig

CONFIG: Final = "spec.training.config"


def data_problems(job: TFDistJob, data: Any, bundled: AbstractSet[Role]) -> Iterator[FieldError]:
    """Yield absent files of training or evaluation data; all bundled programs read files.

    Args:
        job: a well-formed job.
        data: its `training.config.data`, of any content.
        bundled: roles that run the bundled trainer.
    """
    if not isinstance(data, Mapping):
        return
    trains = job.spec.task is Task.TRAIN and bundled & {Role.CHIEF, Role.WORKER}
    evaluates = Role.EVALUATION in bundled or _evaluates_continuously(job, bundled)
    for name, is_required, verb in (("train", trains, "train"), ("eval", evaluates, "evaluate")):
        if is_required and not data.get(name):
            text = messages.required(f"the data to {verb} on; set a pattern of files, such as /data/*.csv")
            yield FieldError(f"{CONFIG}.data.{name}", text)


def job_problems(job: TFDistJob, config: "FilesConfig", bundled: AbstractSet[Role]) -> Iterator[FieldError]:
    """Yield the errors of a valid configuration in its job; `bundled` are the roles that run the bundled trainer."""
    yield from _uneven_batches(job, config, bundled)
    if config.min_shard_bytes is not None and job.spec.strategy is not Strategy.PARAMETER_SERVER:
        yield FieldError(f"{CONFIG}.minShardBytes", messages.forbidden("requires strategy ParameterServer; remove it"))
    yield from _unknown_metric(job, config, bundled)


def _uneven_batches(job: TFDistJob, config: "FilesConfig", bundled: AbstractSet[Role]) -> Iterator[FieldError]:
    """Yield an error for a global batch that the replicas of a gang cannot share evenly.

    A GPU of each replica of the strategy is a replica too, which only the trainer can count.
    """
    for gang in gangs(job):
        roles = {member.role for member in gang.members}
        problem = uneven_batch(config, _synchronous_replicas(job, gang)) if roles & bundled else None
        if problem:
            text = f"{problem.message} of the {gang.name} gang" if gang.name is GangName.EVALUATION else problem.message
            yield FieldError(messages.child_path(CONFIG, *problem.location), text)
            return


def _synchronous_replicas(job: TFDistJob, gang: Gang) -> int:
    """Return the number of replicas that share each batch: one with parameter servers, which share none."""
    asynchronous = job.spec.strategy is Strategy.PARAMETER_SERVER and gang.name is GangName.TRAINING
    return 1 if asynchronous else len(gang.members)


def _unknown_metric(job: TFDistJob, config: "FilesConfig", bundled: AbstractSet[Role]) -> Iterator[FieldError]:
    """Yield a metric that selects the best checkpoint, and that the program does not compute."""
    evaluation = job.spec.evaluation
    metrics = config.scalar_metrics
    if evaluation is None or not _evaluates_continuously(job, bundled) or evaluation.metric in metrics:
        return
    text = messages.unsupported(evaluation.metric, metrics)
    yield FieldError("spec.evaluation.metric", f"{text}; set one of these, or add the metric to {CONFIG}.metrics")


def _evaluates_continuously(job: TFDistJob, bundled: AbstractSet[Role]) -> bool:
    evaluation = job.spec.evaluation
    return Role.EVALUATOR in bundled and evaluation is not None and evaluation.mode.during_training
