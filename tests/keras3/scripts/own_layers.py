"""Write layers and models: weights that are made in `build`, weights that are not trained, masks, `get_config`."""

import keras
import numpy as np
import tensorflow as tf
from keras import ops

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(65)


@keras.saving.register_keras_serializable("own")
class Linear(keras.layers.Layer):
    def __init__(self, units, **options):
        super().__init__(**options)
        self.units = units

    def build(self, input_shape):
        self.kernel = self.add_weight(
            shape=(input_shape[-1], self.units), initializer="glorot_uniform", regularizer=keras.regularizers.L2(1e-3)
        )
        self.bias = self.add_weight(shape=(self.units,), initializer="zeros")

    def call(self, inputs):
        return ops.matmul(inputs, self.kernel) + self.bias

    def get_config(self):
        return {**super().get_config(), "units": self.units}


@keras.saving.register_keras_serializable("own")
class ExampleCounter(keras.layers.Layer):
    """Adds up all rows that it has seen in training, counts their batches, and passes them on."""

    def build(self, input_shape):
        self.total = self.add_weight(shape=(input_shape[-1],), initializer="zeros", trainable=False, name="total")
        self.batches = self.add_weight(shape=(), initializer="zeros", trainable=False, name="batches")

    def call(self, inputs, training=False):
        if training:
            self.total.assign_add(ops.sum(inputs, axis=0))
            self.batches.assign_add(1.0)
        return inputs


@keras.saving.register_keras_serializable("own")
class GatedBlock(keras.layers.Layer):
    def __init__(self, units, **options):
        super().__init__(**options)
        self.units = units
        self.value = Linear(units)
        self.gate = Linear(units)

    def call(self, inputs):
        gate = ops.sigmoid(self.gate(inputs))
        self.add_loss(1e-2 * ops.mean(gate))
        return gate * ops.relu(self.value(inputs))

    def get_config(self):
        return {**super().get_config(), "units": self.units}


@keras.saving.register_keras_serializable("own")
class Network(keras.Model):
    def __init__(self, blocks, **options):
        super().__init__(**options)
        self.counter = ExampleCounter()
        self.blocks = [GatedBlock(units) for units in blocks]
        self.outputs_layer = Linear(1)
        self.sizes = blocks

    def call(self, inputs, training=False):
        x = self.counter(inputs, training=training)
        for block in self.blocks:
            x = block(x)
        return self.outputs_layer(x)

    def get_config(self):
        return {**super().get_config(), "blocks": self.sizes}


random = np.random.RandomState(0)
x = random.normal(size=(129, 5)).astype("float32")
y = np.sin(x[:, :1])

with strategy.scope():
    model = Network([12, 8])
    model(x[:1])
    model.compile(keras.optimizers.Adam(0.01), keras.losses.MeanSquaredError(), metrics=["mae"])

history = model.fit(x, y, batch_size=32, epochs=2, verbose=2)
result_total = model.counter.total.numpy()
model.save("network.keras")

with strategy.scope():
    copy = keras.models.load_model("network.keras")
copied_history = copy.fit(x, y, batch_size=32, epochs=1, verbose=2)
predictions = copy.predict(x[:1], verbose=0)
