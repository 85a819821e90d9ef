"""Compute in float16: the loss is scaled, and a step whose gradients are not finite is left out."""

import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(66)
keras.mixed_precision.set_global_policy("mixed_float16")

random = np.random.RandomState(0)
x = random.normal(size=(257, 10)).astype("float32")
y = np.argmax(x[:, :3], axis=1)
dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(32)


def make_model():
    inputs = keras.Input((10,))
    hidden = keras.layers.Dense(32, activation="relu")(inputs)
    return keras.Model(inputs, keras.layers.Dense(3, activation="softmax", dtype="float32")(hidden))


with strategy.scope():
    model = make_model()
    model.compile(keras.optimizers.SGD(0.1), "sparse_categorical_crossentropy", metrics=["accuracy"])
history = model.fit(dataset, epochs=2, verbose=2)
result_scale = model.optimizer.dynamic_scale

# The first scale is too large for float16, and is halved until the gradients are finite.
with strategy.scope():
    scaled_model = make_model()
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1), 2.0**24)
    scaled_model.compile(optimizer, "sparse_categorical_crossentropy")
result_scales = []
record = keras.callbacks.LambdaCallback(
    on_train_batch_end=lambda batch, logs: result_scales.append(keras.ops.convert_to_numpy(optimizer.dynamic_scale))
)
scaled_history = scaled_model.fit(dataset, epochs=2, callbacks=[record], verbose=2)
result_scaled = {"scale": optimizer.dynamic_scale, "steps": optimizer.inner_optimizer.iterations}


class Scaled(keras.Model):
    def train_step(self, data):
        rows, labels = data
        with tf.GradientTape() as tape:
            outputs = self(rows, training=True)
            loss = self.compute_loss(x=rows, y=labels, y_pred=outputs)
            scaled_loss = self.optimizer.scale_loss(loss)
        self.optimizer.apply(tape.gradient(scaled_loss, self.trainable_variables), self.trainable_variables)
        for metric in self.metrics:
            if metric.name == "loss":
                metric.update_state(loss, sample_weight=tf.shape(rows)[0])
            else:
                metric.update_state(labels, outputs)
        return self.get_metrics_result()


with strategy.scope():
    core = make_model()
    own_model = Scaled(core.inputs, core.outputs)
    own_model.compile(
        keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1)),
        "sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )
own_history = own_model.fit(dataset, epochs=1, verbose=2)
keras.mixed_precision.set_global_policy("float32")
