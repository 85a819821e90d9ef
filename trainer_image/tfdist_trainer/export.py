"""Exports models at the end of training (`training.export`): complete or absent, each in a separate folder.

    <directory>/final/model.keras     format `Keras`
                     /saved_model/    format `SavedModel`
               /best/...              the same of the best evaluation

A folder of a file system is written under a temporary name, flushed, and renamed. A former folder, such as that of an
earlier job of the same name, is replaced as a whole; in an object store object by object.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tfdist.api.export import ExportedModel, ExportFormat
from tfdist.contract import ExportSettings
from tfdist.contract_reports import ExportReport
from tfdist_trainer import log
from tfdist_trainer.errors import ConfigurationError, one_line
from tfdist_trainer.storage.locations import open_folder

FIELD: Final = "training.export"
KERAS_FILE: Final = "model.keras"
SAVED_MODEL: Final = "saved_model"


def _save_keras(model: Any, folder: Path) -> None:
    model.save(folder / KERAS_FILE)


def _save_saved_model(model: Any, folder: Path) -> None:
    model.export(str(folder / SAVED_MODEL), verbose=False)


_SAVE: Final[dict[str, Callable[[Any, Path], None]]] = {
    ExportFormat.KERAS: _save_keras,
    ExportFormat.SAVED_MODEL: _save_saved_model,
}


def export(settings: ExportSettings, which: ExportedModel, model: Any, step: int) -> ExportReport:
    """Write `model` in each format, and return the report; on one member only.

    Args:
        settings: of the job.
        which: the model of the last step, or the best one.
        model: a Keras model.
        step: training step of the model.

    Raises:
        CheckpointUnwritableError: the directory cannot be written.
        ConfigurationError: the model cannot be saved in a format.
        StorageError: the storage failed.
    """
    directory = open_folder(settings.directory, field=f"{FIELD}.directory")
    with directory.replaced(which.lower()) as folder:
        for name in settings.formats:
            _save(name, model, folder)
    log.event("exported", which=which, step=step, path=directory.place(which.lower()))
    return ExportReport(which=which, step=step)


def _save(name: str, model: Any, folder: Path) -> None:
    try:
        _SAVE[name](model, folder)
    except OSError:
        raise
    except Exception as error:  # Keras raises errors of all kinds for what it cannot save
        reason = one_line(f"{type(error).__name__}: {error}")[:500]
        raise ConfigurationError(f"{FIELD}.formats: the model cannot be saved as {name}: {reason}") from error
