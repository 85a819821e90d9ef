"""A Keras script of a job with `checkpoint`, which ends itself now and then: `resumed_fit.py OUT.json SIGNAL@STEP...`.

It gets each signal once, after the optimizer's step, in all attempts together: the files `ended-...` remember them. It
writes the histories, and a checksum of the weights.
"""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfdist_trainer import keras_import

keras_import.prepare()  # as the import of Keras does it in a process that is no fork
keras.utils.set_random_seed(7)
RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(100, 8)).astype("float32")
Y = (X @ RANDOM.normal(size=(8, 3))).argmax(1)
HAS_WORKERS = "TF_CONFIG" in os.environ
RANK = json.loads(os.environ["TF_CONFIG"])["task"]["index"] if HAS_WORKERS else 0
strategy = tf.distribute.MultiWorkerMirroredStrategy() if HAS_WORKERS else tf.distribute.get_strategy()


class End(keras.callbacks.Callback):  # type: ignore[misc]
    """Sends this process a signal after a step; `SIGKILL@3` or, of worker 1, `SIGKILL@3@1`."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[int] = []

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:  # noqa: ARG002  as Keras calls it
        step = int(self.model.optimizer.iterations.numpy())
        self.seen = [*self.seen, step]
        for end in sys.argv[2:]:
            name, at, *rank = end.split("@")
            mark = Path(f"ended-{end}")
            if step == int(at) and int(*rank or "0") == RANK and not mark.exists():
                mark.touch()
                os.kill(os.getpid(), getattr(signal, name))


with strategy.scope():
    model = keras.Sequential(
        [
            keras.Input([8]),
            keras.layers.Dense(8, activation="relu"),
            keras.layers.BatchNormalization(),
            keras.layers.Dropout(0.3),
            keras.layers.Dense(3),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.05, use_ema=True), loss, metrics=["accuracy"])
data = tf.data.Dataset.from_tensor_slices((X, Y)).shuffle(100).batch(16)
end = End()
callbacks = [
    keras.callbacks.EarlyStopping("val_loss", patience=2, restore_best_weights=True),
    keras.callbacks.ReduceLROnPlateau("loss", patience=1),
    end,
]
first = model.fit(data, epochs=3, verbose=0, validation_data=(X[:30], Y[:30]), callbacks=callbacks)
second = model.fit(X, Y, epochs=2, verbose=0, callbacks=[end])
total = float(sum(np.abs(weight).sum() for weight in model.get_weights()))
Path(sys.argv[1]).write_text(json.dumps([first.history, second.history, total, end.seen]))
