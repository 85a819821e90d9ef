"""The state of a program's preprocessing: adapted to the training data once, then stored with the checkpoints.

The checkpoints are valid only with it; later attempts and evaluations load it.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from tfdist.contract import Task
from tfdist_trainer import log
from tfdist_trainer.context import Context
from tfdist_trainer.data.files import Split
from tfdist_trainer.errors import ConfigurationError, StorageError
from tfdist_trainer.input_pipeline import example_counts
from tfdist_trainer.programs.base import Program
from tfdist_trainer.programs.preprocessing import FILE, AdaptableProgram, Reducer
from tfdist_trainer.storage.folder import DamagedError, StorageFolder
from tfdist_trainer.storage.locations import open_folder


def prepare(context: Context) -> None:
    """Adapt the program's preprocessing to the data, or load its stored state; a collective.

    Raises:
        StorageError: an evaluation, or a member, cannot read the stored state.
        ConfigurationError: the configuration of an evaluation is not the one of the training.
        DataMissingError: a file does not exist.
        DataMalformedError: a file does not match the configuration.
    """
    program = context.program
    if not isinstance(program, AdaptableProgram):
        return
    settings = context.checkpoint
    folder = open_folder(settings.directory, tag=context.writer.host) if settings is not None else None
    digest = _digest(program)
    evaluates = context.member.job.task is Task.EVALUATE
    may_restore = evaluates or settings is None or settings.restore != "None"
    # The chief alone decides: another member may not see the file yet.
    stored = _read(folder, digest, strict=evaluates) if folder and may_restore and context.member.is_chief else None
    if folder is not None and context.gang.broadcast_from_chief(float(stored is not None)):
        state = stored if stored is not None else _read(folder, digest, strict=True)
        log.event("preprocessing-restored", path=folder.place(FILE))
    else:
        source = program.source(Split.TRAIN, context.shard)
        # Before adapting: later attempts would load a stored state of no examples.
        example_counts(context.gang, source, "training.config.data.train")
        reducer = Reducer(context.gang.all_reduce_sum, context.member.rank, context.member.size)
        state = program.adapt(source.batches, reducer)
        if folder is not None and context.member.is_chief:
            folder.create()
            folder.write_text(FILE, json.dumps({"settings": digest, "learned": state}))
        log.event("preprocessing-adapted", examples=source.count)
    program.load(state or {})


def restore(program: Program, folder: StorageFolder) -> None:
    """Load the state in a checkpoint directory, if `program` has preprocessing that is adapted to data.

    Raises:
        StorageError: the file cannot be read.
        ConfigurationError: the configuration is not the one of the training.
    """
    if isinstance(program, AdaptableProgram):
        program.load(_read(folder, _digest(program), strict=True) or {})


def _digest(program: AdaptableProgram) -> str:
    return hashlib.sha256(json.dumps(program.fingerprint(), sort_keys=True).encode()).hexdigest()


def _read(folder: StorageFolder, digest: str, *, strict: bool) -> Mapping[str, Any] | None:
    """Return the stored state if it was adapted with the same settings; otherwise None, or an error if `strict`."""
    path = folder.place(FILE)
    try:
        stored = json.loads(folder.read_text(FILE) or "")
        if stored["settings"] == digest:
            state: Mapping[str, Any] = stored["learned"]
            return state
    except (DamagedError, ValueError, KeyError, TypeError) as error:
        if strict:
            raise StorageError(
                f"{path}: cannot be read ({type(error).__name__}): training writes it to its checkpoint directory"
            ) from None
        return None
    if strict:
        raise ConfigurationError(
            f"training.config: differs from the configuration that {path} was created with; use the training's"
        )
    return None
