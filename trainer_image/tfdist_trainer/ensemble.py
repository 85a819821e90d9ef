"""The members of an ensemble (`evaluation.ensemble`): their checkpoints, and the programs that have their models."""

import json
from collections.abc import Sequence
from typing import Any

from pydantic import Field

from tfdist.contract import ReplicaJob
from tfdist.contract_model import ContractModel
from tfdist_trainer import preprocessing_state, programs
from tfdist_trainer.checkpoint import CheckpointRecord, StoredCheckpoint
from tfdist_trainer.errors import ConfigurationError
from tfdist_trainer.initial_checkpoint import existing_checkpoint
from tfdist_trainer.programs.base import Program
from tfdist_trainer.programs.ensemble import FIELD, Ensemble
from tfdist_trainer.programs.preprocessing import FILE
from tfdist_trainer.storage.locations import join_location, open_folder, parent


class EnsembleEntry(ContractModel):
    """An entry of `evaluation.ensemble`."""

    checkpoint: str
    config: dict[str, Any] = Field(default_factory=dict)


def members(job: ReplicaJob) -> tuple[EnsembleEntry, ...]:
    """Return the members of the ensemble that the job evaluates; () if it evaluates one checkpoint."""
    return tuple(map(EnsembleEntry.model_validate, (job.evaluation or {}).get("ensemble") or ()))


def create(job: ReplicaJob, entries: Sequence[EnsembleEntry]) -> Ensemble:
    """Return the members `entries` as one program.

    Raises:
        ConfigurationError: the configuration of a member is wrong, or not the one of its training.
        StorageError: the state of its preprocessing cannot be read.
    """
    created: dict[tuple[str, str], Program] = {}
    order = []
    for number, member in enumerate(entries):
        folder = open_folder(parent(_path(job, member)))
        # Equal configuration and preprocessing are one program, which reads and decodes each example once.
        key = json.dumps(member.config, sort_keys=True), folder.read_text(FILE) or ""
        if key not in created:
            created[key] = _program(job, member, number)
            preprocessing_state.restore(created[key], folder)
        order.append(created[key])
    return Ensemble(order)


def checkpoints(job: ReplicaJob, entries: Sequence[EnsembleEntry]) -> list[tuple[StoredCheckpoint, CheckpointRecord]]:
    """Return the checkpoint of each of the members `entries`, with its record.

    Raises:
        DataMissingError: a checkpoint does not exist.
        StorageError: it is damaged.
    """
    return [
        existing_checkpoint(_path(job, member), f"{FIELD}[{number}].checkpoint")
        for number, member in enumerate(entries)
    ]


def _path(job: ReplicaJob, member: EnsembleEntry) -> str:
    """Return path or URL of a checkpoint; an absolute one replaces the directory."""
    return join_location(job.checkpoint.directory if job.checkpoint else "", member.checkpoint)


def _program(job: ReplicaJob, member: EnsembleEntry, number: int) -> Program:
    if job.training is None:
        raise ConfigurationError("training: is absent; name a program in training.program")
    try:
        return programs.choose(job.training.program, {**job.training.config, **member.config}).create()
    except ConfigurationError as error:
        if not member.config:
            raise
        raise ConfigurationError(f"{FIELD}[{number}].config: {error}") from None
