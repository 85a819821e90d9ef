"""Several trained models that are evaluated as one, by the mean of their predictions (`evaluation.ensemble`)."""

from collections.abc import Sequence
from typing import Any, Final

import tensorflow as tf

from tfdist_trainer.autograph import autograph_converted, do_not_convert
from tfdist_trainer.data.batches import BatchOrder
from tfdist_trainer.data.files import Shard, Split
from tfdist_trainer.data.pipeline import ExampleSource
from tfdist_trainer.errors import ConfigurationError
from tfdist_trainer.programs.base import Program
from tfdist_trainer.programs.traced import traceable

FIELD: Final = "evaluation.ensemble"

OTHER_LABELS: Final = f"{FIELD}: with their configurations the members read different labels for the same example"
"""The message of the failed operation that compares them."""

_OF_THE_FIRST: Final = ("loss", "metrics", "ensemble")
"""Methods of the first member, used unchanged: AutoGraph converts the functions of users."""


class Ensemble(Program):
    """The members of an ensemble as one program, which is evaluated and cannot be trained.

    Args:
        members: program of each member. Members with equal configurations have the same one, which then reads and
            decodes each example once for all of them.
    """

    def __init__(self, members: Sequence[Program]) -> None:
        super().__init__(members[0].config)
        self._members = tuple(members)
        self.programs = tuple(dict.fromkeys(members))
        """Programs of the members, each once; an example has the features of each."""
        for name in _OF_THE_FIRST:
            setattr(self, name, getattr(members[0], name))

    def model(self) -> Any:
        """Return a model from the features of each program to predictions, with the models of all members."""
        places = [self.programs.index(member) for member in self._members]
        return EnsembleModel([member.model() for member in self._members], places, self._members[0])

    def dataset(self, split: Split, shard: Shard) -> tf.data.Dataset:
        """Return the examples with the features of each program; see the base class."""
        parts = tf.data.Dataset.zip(tuple(program.dataset(split, shard) for program in self.programs))
        return parts.map(lambda *examples: (tuple(each[0] for each in examples), *examples[0][1:]))

    def loss(self, labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        """Return the loss of each example as the first member does; its method replaces this one."""
        return self._members[0].loss(labels, predictions)

    def examples(self, split: Split, shard: Shard) -> ExampleSource:
        """Return the examples of pipeline `shard` in `split`, counted, with the features of each program.

        Raises:
            ConfigurationError: two programs read different examples.
        """
        sources = [program.examples(split, shard) for program in self.programs]
        first = sources[0]
        for source in sources[1:]:
            if (source.count, source.by_index) != (first.count, first.by_index):
                raise ConfigurationError(
                    f"{FIELD}: with their configurations the members read different examples, {first.count} and "
                    f"{source.count}; remove what concerns the data from config"
                )
        return ExampleSource(
            count=first.count,
            batches=lambda order: _zip(sources, order),
            decode=lambda *elements: _decode(sources, elements),
            skipped=first.skipped,
            first_skipped=first.first_skipped,
            parallel=first.parallel,
            by_index=first.by_index,
        )


class EnsembleModel:
    """The models of all members, called as one model, and each restored from its own checkpoint.

    Args:
        members: their models.
        places: the index of the features of each model.
        program: averages the predictions.
    """

    losses: Final = ()
    """An ensemble has no regularization losses."""

    def __init__(self, members: Sequence[Any], places: Sequence[int], program: Program) -> None:
        self.members = tuple(members)
        self._calls = tuple(zip(map(autograph_converted, members), places, strict=True))
        self._mean = traceable(program, "ensemble()", program.ensemble)

    @property
    def built(self) -> bool:
        """Whether all models have their variables."""
        return all(getattr(member, "built", True) for member in self.members)

    def __call__(self, features: Sequence[Any], *, training: bool = False) -> Any:
        """Return the predictions of the ensemble, [batch, ...], in float32 also of half-precision models."""
        return self._mean([_as_float32(call(features[place], training=training)) for call, place in self._calls])


def _zip(sources: Sequence[ExampleSource], order: BatchOrder) -> tf.data.Dataset:
    batches = tf.data.Dataset.zip(tuple(source.batches(order) for source in sources))
    return batches.map(do_not_convert(lambda *parts: (tuple(part[0] for part in parts), parts[0][1])))


def _decode(sources: Sequence[ExampleSource], elements: Sequence[Any]) -> tuple[Any, ...]:
    """Return the features of each source, and the labels and weights of the first.

    A step fails if another source has other labels: its examples are others, or in another order.
    """
    parts = [
        source.decode(*(each if isinstance(each, tuple) else (each,)))
        for source, each in zip(sources, elements, strict=True)
    ]
    labels, *weights = parts[0][1:]
    checks = [
        tf.debugging.assert_equal(expected, actual, OTHER_LABELS)
        for part in parts[1:]
        for expected, actual in zip(tf.nest.flatten(labels), tf.nest.flatten(part[1]), strict=True)
    ]
    with tf.control_dependencies(checks):
        return (tuple(part[0] for part in parts), tf.nest.map_structure(tf.identity, labels), *weights)


def _as_float32(predictions: Any) -> Any:
    """Return `predictions` in float32, in which the predictions of all members can be averaged."""
    return tf.nest.map_structure(lambda part: tf.cast(part, tf.float32), predictions)
