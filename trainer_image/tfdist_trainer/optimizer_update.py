"""The update of a model's variables by an optimizer, in a training step whose gradients are exchanged already."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import keras
import tensorflow as tf

from tfdist_trainer.errors import ConfigurationError
from tfdist_trainer.strategies.replica_group import ReplicaGroup
from tfdist_trainer.upstream.strategy_worker import local_updates


def apply(optimizer: Any, gradients: Sequence[tf.Tensor], variables: Sequence[Any]) -> None:
    """Apply `gradients` to `variables` with an optimizer of Keras 3 or `tf_keras`."""
    if isinstance(optimizer, keras.optimizers.Optimizer):
        optimizer.apply(gradients, variables)
    else:
        optimizer.apply_gradients(zip(gradients, variables, strict=True), skip_gradients_aggregation=True)


def check(gang: ReplicaGroup, optimizer: Any) -> None:
    """Raise `ConfigurationError` if the strategy of `gang` cannot update variables by `optimizer`."""
    if _updates_in_branch(optimizer) and (gang.member.cluster or gang.replicas_per_member > 1):
        raise ConfigurationError(
            "training.program: optimizer() has gradient_accumulation_steps or ema_overwrite_frequency, which neither "
            "ParameterServer nor several GPUs of one replica support; remove it, or set strategy: MultiWorkerMirrored "
            "with one GPU for each worker"
        )


def update_scope(gang: ReplicaGroup, optimizer: Any) -> AbstractContextManager[None]:
    """Call the strategy's `run` of a step that applies `optimizer` inside of this.

    Each replica then updates its own copies of the variables, if the optimizer changes them in a branch, which cannot
    contain a call of the strategy.
    """
    return local_updates(gang.strategy) if gang.replicas > 1 and _updates_in_branch(optimizer) else nullcontext()


def _updates_in_branch(optimizer: Any) -> bool:
    """Return whether only some steps change variables: with accumulation, and if averages become the weights."""
    each = getattr(optimizer, "inner_optimizer", optimizer)
    overwrites = getattr(each, "use_ema", False) and getattr(each, "ema_overwrite_frequency", None)
    return bool(overwrites or getattr(each, "gradient_accumulation_steps", None))
