"""One process of a contest of `fit_turns`: `fit_member.py CONTESTANT ALLOWED EXAMPLES` trains, and waits when it must.

The chief prints a line for each epoch, or as many examples: how many a second. The file ALLOWED has the number of
epochs after which all wait until it has a larger one. `fit` takes the first EXAMPLES, or all.
"""

import os
import sys
import time
from pathlib import Path
from typing import Any, Final

import keras
import numpy as np
import tensorflow as tf

from bench.trainer import fits
from bench.trainer.fit_turns import SPEED
from tfdist.contract import Phase
from tfdist_trainer import environment, programs, runtime
from tfdist_trainer.context import Context
from tfdist_trainer.data.files import Shard, Split
from tfdist_trainer.data.pipeline import ExampleSource
from tfdist_trainer.keras import enable
from tfdist_trainer.loop import train
from tfdist_trainer.preemption import PreemptionHandler
from tfdist_trainer.programs.base import Program
from tfdist_trainer.programs.config import batch_size
from tfdist_trainer.programs.image_classification import ImageClassification
from tfdist_trainer.reporter import Reporter, first_report
from tfdist_trainer.strategies.build import join
from tfdist_trainer.strategies.replica_group import ReplicaGroup

FORMS: Final = {"arrays": fits.as_arrays, "data set": fits.as_data_set}


class Speed:
    """Prints the speed of each epoch, or of as many examples, and waits after those that are allowed."""

    def __init__(self, epoch: int, allowed: Path) -> None:
        self._epoch, self._epochs, self._allowed = epoch, 0, allowed
        self._since, self._examples = time.monotonic(), 0

    def reached(self, examples: int) -> None:
        """Record how many have been used since the start."""
        now = time.monotonic()
        if examples - self._examples >= self._epoch:
            print(f"{SPEED}{(examples - self._examples) / (now - self._since)}", flush=True)
            self._epochs += 1
            while self._epochs >= int(self._allowed.read_text()):
                time.sleep(0.02)
            self._since, self._examples = time.monotonic(), examples


class OfDataSet(ImageClassification):
    """The program on a data set of single examples, as a user writes it: each member reads its share."""

    def __init__(self, config: Any, images: Any, labels: Any) -> None:
        super().__init__(config)
        self._data = tf.data.Dataset.from_tensor_slices((images, labels))

    def dataset(self, split: Split, shard: Shard) -> tf.data.Dataset:  # noqa: ARG002  it has one split
        """Return the examples of a pipeline."""
        return self._data.shard(shard.count, shard.index)

    def examples(self, split: Split, shard: Shard) -> ExampleSource:
        """Return them counted, as of each program with a data set."""
        return Program.examples(self, split, shard)


class SpeedReporter(Reporter):
    """Prints the speed of the trainer's own loop, which reports to it."""

    def __init__(self, member: Any, speed: Speed, batch: int) -> None:
        super().__init__(first_report(member.job, member.round))
        self._speed, self._batch = speed, batch

    def update(self, **changes: Any) -> None:
        """Take note of the steps."""
        super().update(**changes)
        if changes.get("phase") is Phase.TRAINING and "step" in changes:
            self._speed.reached(changes["step"] * self._batch)


def main(contestant: str, allowed: str, examples: str) -> None:
    """Train: for instance with the trainer's own loop on arrays as `own of arrays`, or `tf_keras of data set`."""
    member = environment.read_member(os.environ)
    gang = join(member, runtime.read(member.job.runtime))
    assert member.job.training is not None  # noqa: S101  the parent process has set it
    choice = programs.choose(member.job.training.program, member.job.training.config)
    config: Any = choice.config
    with np.load(config.data.train[0]) as arrays:
        images, labels = (arrays[name][: int(examples) if examples else None] for name in ("image", "label"))
    batch = batch_size(config, gang.replicas) * gang.replicas
    speed = Speed(len(images), Path(allowed))
    name, form = contestant.split(" of ")
    if name == "own":
        reporter = SpeedReporter(member, speed, batch)
        settings, preemption = runtime.read(member.job.runtime), PreemptionHandler(lambda _reason, _message: None)
        program = choice.create() if form == "arrays" else OfDataSet(config, images, labels)
        train(Context(gang, program, config, None, reporter, preemption, settings))
    else:
        network = None if config.model == "mlp" else choice.create()
        _fit(_module(name), gang, network, FORMS[form](images, labels, batch), speed, len(images))


def _module(name: str) -> Any:
    if name == "tf_keras":
        # Here, as no other contestant needs it.
        import tf_keras  # noqa: PLC0415

        return tf_keras
    enable()
    return keras


def _fit(
    module: Any, gang: ReplicaGroup, program: Program | None, data: dict[str, Any], speed: Speed, epoch: int
) -> None:
    """Train the model of `program`, or the perceptron, for as many epochs as `speed` lets it."""
    with gang.strategy.scope():
        model = fits.compiled(module, program and program.model())

    def after_epoch(number: int, _logs: Any) -> None:
        speed.reached((number + 1) * epoch)

    callbacks = [module.callbacks.LambdaCallback(on_epoch_end=after_epoch)]
    model.fit(**data, epochs=10**6, verbose=0, callbacks=callbacks)


if __name__ == "__main__":
    main(*sys.argv[1:])
