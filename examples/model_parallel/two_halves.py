"""One model over two devices: the first half on one, the second on the other.

For a model that is too large for one GPU. Activations travel between the devices, and each waits for the other: it
makes room and not speed. `tf.device` places the variables where layers are built and the work where they are called.
"""

import keras
import tensorflow as tf

import tfdist_trainer


def devices() -> list[str]:
    """Return the names of the two devices: GPUs if there are two, else logical CPUs."""
    for kind in ("GPU", "CPU"):
        names = [device.name for device in tf.config.list_logical_devices(kind)]
        if len(names) > 1:
            return names[:2]
    raise ValueError("this program needs two devices; on a machine without GPUs set TFDIST_LOGICAL_CPUS=2")


class On(keras.layers.Layer):
    """A layer, built and called on one device."""

    def __init__(self, layer: keras.layers.Layer, device: str) -> None:
        super().__init__()
        self.layer, self.device = layer, device

    def build(self, shape: tuple[int, ...]) -> None:
        """Make the variables on the device."""
        with tf.device(self.device):
            self.layer.build(shape)

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Compute on the device."""
        with tf.device(self.device):
            return self.layer(inputs)


class TwoHalves(tfdist_trainer.Program):
    """Learns y = sin(3 x) on 4096 points."""

    def model(self) -> keras.Model:
        """Return three layers, of which the first is on one device and the others on the other."""
        first, second = devices()
        hidden = On(keras.layers.Dense(64, activation="tanh"), first)
        rest = [On(keras.layers.Dense(64, activation="tanh"), second), On(keras.layers.Dense(1), second)]
        return keras.Sequential([keras.layers.Input([1]), hidden, *rest])

    def dataset(self, split: tfdist_trainer.Split, shard: tfdist_trainer.Shard) -> tf.data.Dataset:
        """Return the points, the same for both splits."""
        del split
        x = tf.reshape(tf.linspace(-1.0, 1.0, 4096), [-1, 1])
        return tf.data.Dataset.from_tensor_slices((x, tf.sin(3 * x))).shard(shard.count, shard.index)

    def loss(self, labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        """Return the squared error of each example."""
        return tf.reduce_sum((labels - predictions) ** 2, axis=-1)
