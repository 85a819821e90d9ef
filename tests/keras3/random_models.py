"""Fit random small models, and save histories and weights: `random_models.py FIRST LAST OUT.npz [--enable]`.

A model is determined by its number. By several workers, without TF_CONFIG by one process and Keras alone.
"""

import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf

layers, regularizers = keras.layers, keras.regularizers
OPTIMIZERS: Final[dict[str, Callable[..., Any]]] = {
    "sgd": lambda **options: keras.optimizers.SGD(0.05, momentum=0.9, **options),
    "adam": lambda **options: keras.optimizers.Adam(0.01, **options),
    "adamw": lambda **options: keras.optimizers.AdamW(0.01, weight_decay=0.1, **options),
    "rmsprop": lambda **options: keras.optimizers.RMSprop(0.01, **options),
}
OPTIONS: Final[list[dict[str, Any]]] = [
    {},
    {"use_ema": True, "ema_overwrite_frequency": 3},
    {"global_clipnorm": 0.5},
    {"clipnorm": 0.2},
    {"gradient_accumulation_steps": 2},
]


class Added(keras.layers.Layer):  # type: ignore[misc]
    """Adds the mean of the squares of its inputs to the loss."""

    def call(self, inputs: Any) -> Any:
        self.add_loss(0.1 * tf.reduce_mean(tf.square(inputs)))
        return inputs


class Case:
    """A model with its data, as its number determines them."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._random = choose = random.Random(number)  # noqa: S311  not a secret
        self._examples, self._features = choose.randint(20, 70), choose.randint(2, 6)
        self._batch = choose.randint(3, 17)
        self._outputs = choose.randint(1, 2)
        self._weighted = choose.random() < 0.5
        self._optimizer, self._options = choose.choice(sorted(OPTIMIZERS)), choose.choice(OPTIONS)
        self._losses = [choose.choice(["mse", "mae", "huber"]) for _ in range(self._outputs)]
        self._is_array = choose.random() < 0.5

    def fit(self, strategy: tf.distribute.Strategy) -> dict[str, npt.NDArray[Any]]:
        """Return the history and the weights."""
        with strategy.scope():
            model = self.model()
            metrics = [["mae"]] * self._outputs
            model.compile(self.optimizer(), self.losses, loss_weights=self.loss_weights, metrics=metrics)
        history = self._fit(model).history
        # Keras counts each batch equally in the losses of single outputs, also a smaller last one.
        total = [name for name in history if not name.endswith("_loss") or name == "val_loss"]
        arrays = {f"{self._number}/{name}": np.asarray(history[name]) for name in total}
        return arrays | {f"{self._number}/weight-{i}": value for i, value in enumerate(model.get_weights())}

    @property
    def losses(self) -> list[str]:
        """The loss of each output."""
        return self._losses

    @property
    def loss_weights(self) -> list[float]:
        """The weight of each loss."""
        return [1.0, 0.3][: self._outputs]

    def optimizer(self) -> Any:
        """Return a new optimizer."""
        return OPTIMIZERS[self._optimizer](**self._options)

    def model(self) -> Any:
        """Return the model; to be called once."""
        keras.utils.set_random_seed(self._number)
        inputs = hidden = keras.Input([self._features])
        for _ in range(self._random.randint(1, 3)):
            regularizer = self._random.choice([None, regularizers.L2(0.01), regularizers.L1(0.01)])
            # A bias before a normalization has the gradient 0, whose rounding errors Adam makes as large as any.
            dense = layers.Dense(self._random.randint(2, 8), use_bias=False, kernel_regularizer=regularizer)
            hidden = dense(hidden)
            if self._random.random() < 0.5:
                hidden = layers.BatchNormalization(synchronized=True)(hidden)
            for layer in (Added(), layers.Activation("tanh")):
                if self._random.random() < 0.5:
                    hidden = layer(hidden)
        return keras.Model(inputs, [layers.Dense(1, name=f"out{i}")(hidden) for i in range(self._outputs)])

    def arrays(self) -> tuple[Any, tuple[Any, ...], tuple[Any, ...] | None]:
        """Return the features, and for each output the labels and, if there are any, the weights of the examples."""
        values = np.random.RandomState(self._number)
        x = values.randn(self._examples, self._features).astype("float32")
        y = tuple(values.randn(self._examples, 1).astype("float32") for _ in range(self._outputs))
        return x, y, tuple(values.rand(self._examples).astype("float32") for _ in y) if self._weighted else None

    def _fit(self, model: Any) -> Any:
        x, y, weights = self.arrays()
        if self._is_array:
            options = {"sample_weight": list(weights)} if weights else {}
            return model.fit(
                x, list(y), batch_size=self._batch, epochs=2, verbose=0, shuffle=False, validation_split=0.2, **options
            )
        arrays = (x, y, weights) if weights else (x, y)
        data = tf.data.Dataset.from_tensor_slices(arrays).batch(self._batch)
        held_out = tf.data.Dataset.from_tensor_slices((x[:7], tuple(each[:7] for each in y))).batch(4)
        return model.fit(data, epochs=2, verbose=0, validation_data=held_out)


def main() -> None:
    first, last, out = sys.argv[1:4]
    if "--enable" in sys.argv:
        # Here, as one process without it is what the engine is compared with.
        from tfdist_trainer.keras import enable  # noqa: PLC0415

        enable()
        strategy: Any = tf.distribute.MultiWorkerMirroredStrategy()
    else:
        strategy = tf.distribute.get_strategy()
    arrays: dict[str, npt.NDArray[Any]] = {}
    for number in range(int(first), int(last)):
        arrays |= Case(number).fit(strategy)
    partial = Path(out).with_suffix(".partial.npz")
    np.savez(partial, allow_pickle=False, **arrays)
    partial.rename(out)


if __name__ == "__main__":
    main()
