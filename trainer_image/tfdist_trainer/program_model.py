"""The model of a program: a new one with its optimizer, to be trained, and one from a checkpoint, to be exported."""

from typing import Any

import keras

from tfdist.api.export import ExportedModel
from tfdist.contract import Phase, Role
from tfdist_trainer.checkpoint import StoredCheckpoint
from tfdist_trainer.context import Context
from tfdist_trainer.data.files import Split
from tfdist_trainer.errors import ConfigurationError
from tfdist_trainer.export import export
from tfdist_trainer.fence import writer_of
from tfdist_trainer.programs.models import check_trainable, new_model
from tfdist_trainer.state import State, restore_model
from tfdist_trainer.upstream.initial_values import local_initial_values


def new_state(context: Context) -> State:
    """Return a new model and optimizer, created in the strategy's scope; to be restored, and then synchronized.

    Raises:
        ConfigurationError: the model has nothing to train, or overrides methods of `fit`.
    """
    # Not 0: a shuffle compares the pair of this seed and its own with (0, 0), and its own is a tensor.
    keras.utils.set_random_seed(context.seed + 1)
    strategy = context.gang.strategy
    with strategy.scope(), local_initial_values(strategy) as unsynchronized:
        model = new_model(context.program, Split.TRAIN, context.shard)
        check_trainable(model)
        optimizer = context.program.optimizer(context.scale)
        if context.settings.mixed_precision == "float16":
            optimizer = _with_loss_scale(optimizer)
        optimizer.build(model.trainable_variables)
    return State(model, optimizer, unsynchronized)


def _with_loss_scale(optimizer: Any) -> keras.optimizers.Optimizer:
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        raise ConfigurationError(
            "runtime.mixedPrecision: float16 needs a loss scale, which is not supported with optimizers of tf_keras; "
            "use bfloat16, or Keras 3 without training.config.minShardBytes"
        )
    return keras.optimizers.LossScaleOptimizer(optimizer)


def export_checkpoint(context: Context, which: ExportedModel, checkpoint: StoredCheckpoint, step: int) -> None:
    """Export the model in a checkpoint if the job requests `which`, and report it; on one member only.

    The model is a new one in this process alone: the models of training are copies on several replicas, or on servers.

    Raises:
        CheckpointUnwritableError: the export directory cannot be written, or a later attempt has claimed it.
        ConfigurationError: the model cannot be saved in a format, or another job writes there.
        StorageError: the checkpoint cannot be read, or the storage failed.
    """
    settings, reporter = context.member.job.export, context.reporter
    if settings is None or which not in settings.which:
        return
    reporter.update(phase=Phase.CHECKPOINTING)
    split = Split.EVAL if context.member.job.role is Role.EVALUATOR else Split.TRAIN
    # A new one, without the strategy: saving copies on replicas, or shards on servers, needs all of them (ADR 35).
    model = new_model(context.program, split, context.shard)
    restore_model(model, checkpoint)
    writer = writer_of(context.member.job, context.member.round)
    exported = export(settings, which, context.program.serving_model(model), step, writer)
    reporter.update(exports=[*reporter.current.exports, exported])
