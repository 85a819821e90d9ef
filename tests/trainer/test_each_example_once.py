"""Each example once an epoch over all workers, with any failures: the replicas record their examples.

The 25 examples divide by nothing. Two workers share three files record by record; three workers have a file each, of
which one is empty, or share these files because they are uneven.
"""

import json
import random
import signal
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest
from support.recording_program import EXAMPLES, JOURNAL, SIGNAL
from trainer.replicas import Replicas

from tfdist.contract import ExitCode
from tfdist_trainer.checkpoint import CheckpointReader
from tfdist_trainer.data import npz, tfrecord

if TYPE_CHECKING:
    from trainer.replicas import Launch

pytestmark = pytest.mark.trainer

SECONDS: Final = 240.0
FILES: Final = (17, 0, 8)
BATCH: Final = 3
SAVES: Final = 3
"""Steps between two checkpoints."""
EPOCHS: Final = 12


@dataclass(frozen=True)
class Manner:
    """How examples come to workers."""

    program: str
    ending: str
    sizes: tuple[int, ...]
    """Examples of each worker."""
    pattern: str = "train-*"

    @property
    def workers(self) -> int:
        return len(self.sizes)

    @property
    def steps(self) -> int:
        """Of an epoch: as many batches as the worker has that has most."""
        return -(-max(self.sizes) // BATCH)


MANNERS: Final = {
    "records": Manner("FromFiles", "tfrecord", (13, 12)),
    "partitioned files": Manner("FromFiles", "npz", FILES, pattern="train-{worker}.npz"),
    "data set": Manner("FromDataSet", "", (9, 8, 8)),
}
UNEVEN: Final = {"uneven files": Manner("FromFiles", "npz", (9, 8, 8))}
"""A file for each worker, but 17, 0 and 8 examples: the workers share them record by record."""


@dataclass
class RecordedJob:
    """A job whose workers record their examples in each attempt."""

    launch: "Launch"
    folder: Path
    manner: Manner
    training: dict[str, Any]
    attempts: list[Replicas] = field(default_factory=list)
    counted_steps: list[list[int]] = field(default_factory=list)
    """The examples of each step that counts, of all workers."""

    def run(self, signals: dict[int, str] | None = None) -> list[int]:
        """Run an attempt, in which workers send themselves `signals`, and return how they end."""
        begin = self.saved
        checkpoint = {"directory": str(self.folder / "ckpt"), "everySteps": SAVES}
        settings = {"training": self.training, "checkpoint": checkpoint, "attempt": len(self.attempts)}
        environs = {
            rank: {JOURNAL: str(self._journal(len(self.attempts), rank))} for rank in range(self.manner.workers)
        }
        for rank, text in (signals or {}).items():
            environs[rank][SIGNAL] = text
        replicas = self.launch(self.manner.workers, config={}, job=settings, environs=environs)
        codes = replicas.wait(SECONDS)
        # What was done after the last checkpoint is done again: an attempt's steps count from where it began.
        self.attempts.append(replicas)
        steps = zip(*(self.steps_of(rank) for rank in range(self.manner.workers)), strict=False)
        self.counted_steps = self.counted_steps[:begin] + [[*chain(*parts)] for parts in steps]
        return codes

    def steps_of(self, rank: int) -> list[list[int]]:
        """Return the examples of a worker in the attempt that has ended last, by step."""
        lines = self._journal(len(self.attempts) - 1, rank).read_text().splitlines()
        return [json.loads(line) for line in lines]

    @property
    def saved(self) -> int:
        """The step of the newest checkpoint."""
        newest = CheckpointReader(self.folder / "ckpt").newest()
        return newest.cursor.step if newest else 0

    def _journal(self, attempt: int, rank: int) -> Path:
        return self.folder / f"journal-{attempt}-{rank}"


@pytest.fixture
def job(launch: "Launch", tmp_path: Path, name: str) -> RecordedJob:
    manner = (MANNERS | UNEVEN)[name]
    config: dict[str, Any] = {"epochs": EPOCHS, "batchSizePerReplica": BATCH, "learningRate": 0.01}
    if manner.ending:
        for number, part in enumerate(np.split(np.arange(EXAMPLES), np.cumsum(FILES)[:-1])):
            columns = {"x": part.astype(np.float32), "number": part.astype(np.float32)}
            path = str(tmp_path / f"train-{number}.{manner.ending}")
            tfrecord.write(path, columns) if manner.ending == "tfrecord" else npz.save(path, **columns)
        data = {"train": f"{tmp_path}/{manner.pattern}"}
        config |= {"data": data, "numeric": ["x"], "label": "number", "normalize": "None", "hiddenUnits": [2]}
    training = {"program": f"support.recording_program:{manner.program}", "config": config}
    return RecordedJob(launch, tmp_path, manner, training)


def each_is_there_once_an_epoch(job: RecordedJob) -> None:
    """Check the steps that count."""
    steps = job.manner.steps
    assert len(job.counted_steps) == EPOCHS * steps
    for epoch in range(EPOCHS):
        numbers = chain(*job.counted_steps[epoch * steps : (epoch + 1) * steps])
        assert sorted(numbers) == list(range(EXAMPLES)), f"epoch {epoch}"


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.long) for name in (*MANNERS, *UNEVEN)])
def test_an_undisturbed_training_uses_each_example_once_an_epoch(job: RecordedJob) -> None:
    assert set(job.run()) == {0}, job.attempts[-1].outputs
    each_is_there_once_an_epoch(job)
    sizes = [len([*chain(*job.steps_of(rank))]) / EPOCHS for rank in range(job.manner.workers)]
    assert sizes == list(job.manner.sizes)


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        pytest.param(name, seed, marks=() if (name, seed) == ("records", 1) else pytest.mark.long)
        for name in MANNERS
        for seed in (1, 2, 3)
    ],
)
def test_a_training_with_a_kill_and_a_sigterm_uses_each_example_once_an_epoch(job: RecordedJob, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311  no secret
    victim, step = chance.randrange(job.manner.workers), chance.randint(SAVES + 1, 3 * SAVES)
    codes = job.run({victim: f"{step}:{signal.SIGKILL}"})
    assert codes.pop(victim) == -signal.SIGKILL
    assert set(codes) == {ExitCode.PEER_LOST}, job.attempts[-1].outputs
    killed_after = job.saved
    assert 0 < killed_after < step

    notified, step = chance.randrange(job.manner.workers), chance.randint(1, 2 * SAVES)
    assert set(job.run({notified: f"{step}:{signal.SIGTERM}"})) == {ExitCode.PREEMPTED}
    assert {len(job.steps_of(rank)) for rank in range(job.manner.workers)} == {job.saved - killed_after}
    assert len(job.counted_steps) == job.saved, "no step is done twice, and none is lost"

    assert set(job.run()) == {0}, job.attempts[-1].outputs
    each_is_there_once_an_epoch(job)
