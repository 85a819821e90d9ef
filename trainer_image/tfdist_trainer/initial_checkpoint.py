"""Finds the checkpoint that a training run begins with, for all members of its gang.

The initial checkpoint (`checkpoint.restore`) is the newest checkpoint that this job itself has written, so a
restarted job resumes. If it has written none, `Latest` selects the newest checkpoint of any job, a path selects that
checkpoint, and `None` selects none. Checkpoints of other jobs with a later step are then moved into a folder: they
would count as the newest, and the checkpoints of this job would be removed as the oldest. So are damaged ones. If all
that this job has written are damaged, it does not begin again by itself.
"""

from typing import Final

from tfdist.contract import CheckpointSettings
from tfdist_trainer.checkpoint import CheckpointReader, CheckpointRecord, CheckpointWriter, StoredCheckpoint
from tfdist_trainer.errors import DataMissingError, StorageError
from tfdist_trainer.storage.locations import join_location
from tfdist_trainer.stored_checkpoint import stored_checkpoint
from tfdist_trainer.strategies.replica_group import ReplicaGroup

LATEST: Final = "Latest"
NOTHING: Final = "None"


def initial_checkpoint(
    gang: ReplicaGroup, settings: CheckpointSettings, job: str, writer: CheckpointWriter | None = None
) -> tuple[StoredCheckpoint, CheckpointRecord] | None:
    """Return the initial checkpoint as the chief sees it, and its record; None if there is none. A collective.

    The `writer` of the chief first claims the directory, and then moves the checkpoints that must not be resumed from.

    Raises:
        CheckpointUnwritableError: the directory cannot be written, or a later attempt has claimed it.
        ConfigurationError: another job writes there.
        StorageError: a member cannot read the checkpoint, or all that this job has written are damaged.
    """
    if writer is not None:
        # First of all: what is found afterwards cannot change under this job.
        writer.claim()
    reader = writer or CheckpointReader(settings.directory)
    newest = None
    # The chief alone chooses; others may not see the newest one yet.
    if gang.member.is_chief:
        newest = reader.newest() if settings.restore == LATEST else reader.newest(written_by=job)
    if writer is not None:
        # Before anything is moved: the job ends here if it would lose all its progress.
        writer.check_progress(newest)
    record = share_record(gang, reader, newest)
    result = (reader.path_of(record.cursor.step), record) if record else None
    if record is None and settings.restore not in {LATEST, NOTHING}:
        checkpoint = stored_checkpoint(join_location(settings.directory, settings.restore))
        result = checkpoint, read_named(checkpoint)
    if writer is not None:
        # Last, when it is certain what training resumes from.
        writer.set_damaged_aside()
        if settings.restore != LATEST:
            writer.set_aside(above=record.cursor.step if record else -1)
    return result


def read_named(checkpoint: StoredCheckpoint, field: str = "checkpoint.restore") -> CheckpointRecord:
    """Return the record of a checkpoint, the value of `field`.

    Raises:
        StorageError: the checkpoint does not exist or is damaged.
    """
    try:
        return checkpoint.record()
    except StorageError as error:
        raise StorageError(f"{field}: {error}") from None


def existing_checkpoint(path: str, field: str = "checkpoint.restore") -> tuple[StoredCheckpoint, CheckpointRecord]:
    """Return the checkpoint at `path`, a path or URL and the value of `field`, that an evaluation needs.

    Raises:
        DataMissingError: it does not exist.
        StorageError: it is damaged.
    """
    checkpoint = stored_checkpoint(path)
    if not checkpoint.folder.names():
        raise DataMissingError(f"{field}: {path} does not exist; give a checkpoint directory")
    return checkpoint, read_named(checkpoint, field)


def share_record(
    gang: ReplicaGroup, reader: CheckpointReader, chosen: CheckpointRecord | None
) -> CheckpointRecord | None:
    """Return the record that the chief has `chosen`, on all members; a collective.

    Raises:
        StorageError: this member does not see the checkpoint that the chief sees.
    """
    # Sent as step + 1, so that 0 means none.
    step = round(gang.broadcast_from_chief(chosen.cursor.step + 1 if chosen else 0)) - 1
    if step < 0 or chosen is not None:
        return chosen
    return reader.path_of(step).record()
