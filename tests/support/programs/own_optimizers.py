"""A Keras script of a job with `checkpoint`, whose model has an optimizer of each kind in each kind of place.

`own_optimizers.py OUT.json SIGNAL@STEP...` gets each signal once, in all attempts together, and writes the histories of
its three calls of `fit`, checksums, and how many updates each optimizer has made.
"""

import atexit
import collections
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tfdist_trainer import keras_import

keras_import.prepare()
keras.utils.set_random_seed(5)
X = np.random.default_rng(0).normal(size=(64, 4)).astype("float32")
Y = np.sin(X.sum(axis=1, keepdims=True))
HAS_WORKERS = "TF_CONFIG" in os.environ
RANK = json.loads(os.environ["TF_CONFIG"])["task"]["index"] if HAS_WORKERS else 0
strategy = tf.distribute.MultiWorkerMirroredStrategy() if HAS_WORKERS else tf.distribute.get_strategy()


class Best(NamedTuple):
    step: int
    loss: Any


class Owner:
    """An object of the script with an optimizer, and a way back to the model."""

    def __init__(self, model: Any, optimizer: Any) -> None:
        self.model, self.optimizer = model, optimizer


class Parts(keras.Model):  # type: ignore[misc]
    """A chain of layers, each of which has an optimizer of its own; the one of `compile` is not used, as in a GAN."""

    def __init__(self, kinds: int) -> None:
        super().__init__()
        self.parts = [keras.Sequential([keras.Input([4]), keras.layers.Dense(4, "tanh")]) for _ in range(kinds)]
        self.tracker = keras.metrics.Mean(name="loss")

    def take(self, optimizers: list[Any]) -> None:
        self.attribute, in_list, in_dict, in_tuple, in_object, scaled, *of_submodels = optimizers
        self.listed = [in_list, {"deep": in_dict}]
        self.by_key = {1: (in_tuple,)}
        self.owner = Owner(self, in_object)
        self.scaled = {"scaled": keras.optimizers.LossScaleOptimizer(scaled, initial_scale=8.0)}
        for part, optimizer in zip(self.parts[-2:], of_submodels, strict=True):
            part.compile(optimizer=optimizer)

    def used(self) -> list[Any]:
        return [
            *(self.attribute, self.listed[0], self.listed[1]["deep"], self.by_key[1][0], self.owner.optimizer),
            *(self.scaled["scaled"], self.parts[-2].optimizer, self.parts[-1].optimizer),
        ]

    def call(self, x: Any) -> Any:
        for part in self.parts:
            x = part(x)
        return x

    @property
    def metrics(self) -> list[Any]:
        return [self.tracker]

    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data
        with tf.GradientTape(persistent=True) as tape:
            loss = tf.reduce_mean(tf.square(tf.reduce_sum(self(x, training=True), 1, keepdims=True) - y))
            scaled = self.scaled["scaled"].scale_loss(loss)
        for part, optimizer in zip(self.parts, self.used(), strict=True):
            target = scaled if optimizer is self.scaled["scaled"] else loss
            optimizer.apply(tape.gradient(target, part.trainable_variables), part.trainable_variables)
        self.tracker.update_state(loss)
        return {"loss": self.tracker.result()}


class End(keras.callbacks.Callback):  # type: ignore[misc]
    """Sends this process a signal after a step of all calls of `fit`, such as `SIGKILL@3`; has much to remember."""

    def __init__(self) -> None:
        super().__init__()
        self.last: Any = collections.deque(maxlen=3)
        self.counts: Any = collections.defaultdict(int)
        self.by_step: dict[int, float] = {}
        self.seen: set[int] = set()
        self.best = Best(0, np.float32(9))
        self.random = np.random.default_rng(2)
        self.file = Path(os.devnull).open()  # noqa: SIM115  no checkpoint can have it

    def remember(self, step: int, loss: float) -> None:
        self.last.append(loss)
        self.counts["odd" if step % 2 else "even"] += 1
        self.by_step[step] = float(self.random.random())
        self.seen.add(step)
        self.best = min(self.best, Best(step, np.float32(loss)), key=lambda each: each.loss)

    def remembered(self) -> str:
        return repr([self.last, self.counts, self.by_step, self.seen, self.best, self.random.random()])

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:  # noqa: ARG002  as Keras calls it
        step = sum(int(each.iterations.numpy()) for each in (model.attribute, other.optimizer))
        self.remember(step, logs["loss"])
        for end in sys.argv[2:]:
            name, at = end.split("@")
            mark = Path(f"ended-{end}")
            if step == int(at) and RANK == 0 and not mark.exists():
                mark.touch()
                os.kill(os.getpid(), getattr(signal, name))


with strategy.scope():
    kinds = [
        keras.optimizers.Adam(0.01),
        keras.optimizers.Adam(0.02),
        keras.optimizers.SGD(0.01, momentum=0.9),
        keras.optimizers.RMSprop(0.003),
        keras.optimizers.Adam(0.005, amsgrad=True),
        keras.optimizers.Adam(0.004),
        keras.optimizers.Adam(0.003),
        keras.optimizers.Adagrad(0.05),
    ]
    model = Parts(len(kinds))
    model.build([None, 4])
    model.take(kinds)
    model.compile()
    other = keras.Sequential([keras.Input([4]), keras.layers.Dense(1)])
    other.compile(keras.optimizers.Adam(0.05), "mse")
end = End()
histories = [
    each.fit(X, Y, batch_size=16, epochs=2, verbose=0, callbacks=[end]).history for each in (model, other, model)
]
total = [float(sum(np.abs(weight).sum() for weight in each.get_weights())) for each in (model, other)]
counts = [int(each.iterations.numpy()) for each in [*model.used(), other.optimizer]]
Path(sys.argv[1]).write_text(json.dumps([histories, total, counts, bool(model.optimizer.built), end.remembered()]))
atexit._run_exitfuncs()  # which a process of multiprocessing does not run
