"""Exports the model of a program, from a checkpoint: the one of the last step, or the best one."""

from pathlib import Path

from tfdist.api.export import ExportedModel
from tfdist.contract import Phase
from tfdist_trainer.context import Context
from tfdist_trainer.export import export
from tfdist_trainer.state import restore_model


def export_checkpoint(context: Context, which: ExportedModel, path: Path, step: int) -> None:
    """Export the model in the checkpoint `path` if the job asks for `which`, and report it; on one member only.

    The model is a new one in this process alone: those of training are copies on several replicas, or on servers.

    Raises:
        CheckpointUnwritableError: the export directory cannot be written.
        ConfigurationError: the model cannot be saved in a format.
        StorageError: the checkpoint cannot be read, or the storage failed.
    """
    settings, reporter = context.member.job.export, context.reporter
    if settings is None or which not in settings.which:
        return
    reporter.update(phase=Phase.CHECKPOINTING)
    model = context.program.model()
    restore_model(model, path)
    exported = export(settings, which, context.program.serving_model(model), step)
    reporter.update(exports=[*reporter.current.exports, exported])
