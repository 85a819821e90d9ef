"""Exports models at the end of training (`training.export`): complete or absent, each in a separate folder.

    <directory>/final/model.keras     format `Keras`
                     /saved_model/    format `SavedModel`
               /best/...              the same of the best evaluation

The folder of an earlier job of the same name is replaced as a whole (`StorageFolder.replace_folder`), by the one writer
that has claimed it. In an object store the names stay the same, because TensorFlow Serving and
`keras.models.load_model` follow no pointer to a version: `saved_model.pb`, without which they find no SavedModel, is
removed before the other files are replaced, and written after them; `model.keras` is one object, replaced at once.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tfdist.api.export import ExportedModel, ExportFormat
from tfdist.contract import ExportSettings
from tfdist.contract_reports import ExportReport
from tfdist_trainer import log
from tfdist_trainer.errors import ConfigurationError, one_line
from tfdist_trainer.fence import Fence, Writer
from tfdist_trainer.storage.folder import work_folder
from tfdist_trainer.storage.locations import open_folder

FIELD: Final = "training.export"
KERAS_FILE: Final = "model.keras"
SAVED_MODEL: Final = "saved_model"
MARKER: Final = f"{SAVED_MODEL}/saved_model.pb"


def _save_keras(model: Any, folder: Path) -> None:
    model.save(folder / KERAS_FILE)


def _save_saved_model(model: Any, folder: Path) -> None:
    model.export(str(folder / SAVED_MODEL), verbose=False)


_SAVE: Final[dict[str, Callable[[Any, Path], None]]] = {
    ExportFormat.KERAS: _save_keras,
    ExportFormat.SAVED_MODEL: _save_saved_model,
}


def export(settings: ExportSettings, which: ExportedModel, model: Any, step: int, writer: Writer) -> ExportReport:
    """Claim the model's folder, write `model` in each format, and return the report; on one member only.

    Args:
        settings: of the job.
        which: the model of the last step, or the best one.
        model: a Keras model.
        step: training step of the model.
        writer: this process.

    Raises:
        CheckpointUnwritableError: the directory cannot be written, or a later attempt has claimed it.
        ConfigurationError: the model cannot be saved in a format, or another job writes there.
        StorageError: the storage failed.
    """
    directory, name = open_folder(settings.directory, tag=writer.tag, field=f"{FIELD}.directory"), which.lower()
    claimed = directory.folder(work_folder(name))
    claimed.create()
    fence = Fence(claimed, writer)
    fence.claim()
    try:
        with fence.explain_errors(), directory.replace_folder(name, MARKER, fence.check) as folder:
            for each in settings.formats:
                _save(each, model, folder)
    finally:
        fence.release()
    log.event("exported", which=which, step=step, path=directory.place(name))
    return ExportReport(which=which, step=step)


def _save(name: str, model: Any, folder: Path) -> None:
    try:
        _SAVE[name](model, folder)
    except OSError:
        raise
    # Permanent: a restart would save the same model.
    except Exception as error:  # Keras raises errors of all kinds for what it cannot save
        reason = one_line(f"{type(error).__name__}: {error}")[:500]
        raise ConfigurationError(f"{FIELD}.formats: the model cannot be saved as {name}: {reason}") from error
