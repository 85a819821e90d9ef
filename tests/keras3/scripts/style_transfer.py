"""Paint an image in the style of another: a loop that changes the pixels, while the network stays as it is."""

import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(61)

SIZE = 16

random = np.random.RandomState(0)
rows, columns = np.mgrid[:SIZE, :SIZE]
content = ((rows - 8) ** 2 + (columns - 8) ** 2 < 30).astype("float32")[None, :, :, None] * np.ones(3, "float32")
style = (np.sin(rows + columns)[None, :, :, None] * np.array([1.0, 0.5, -1.0])).astype("float32")

with strategy.scope():
    network = keras.Sequential(
        [
            keras.Input((SIZE, SIZE, 3)),
            keras.layers.Conv2D(6, 3, padding="same", activation="relu", name="first"),
            keras.layers.AveragePooling2D(2),
            keras.layers.Conv2D(8, 3, padding="same", activation="relu", name="second"),
            keras.layers.GlobalAveragePooling2D(),
            keras.layers.Dense(2),
        ]
    )
    network.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))

examples = random.uniform(size=(64, SIZE, SIZE, 3)).astype("float32")
history = network.fit(examples, (examples[:, :, :, 0].mean(axis=(1, 2)) > 0.5).astype(int), batch_size=16, verbose=2)

extract = keras.Model(network.inputs, {name: network.get_layer(name).output for name in ("first", "second")})


def gram(features):
    flat = tf.reshape(features, (-1, features.shape[-1]))
    return tf.matmul(flat, flat, transpose_a=True) / tf.cast(tf.shape(flat)[0], tf.float32)


def make_step(optimizer, target, wanted):
    @tf.function
    def step(image):
        with tf.GradientTape() as tape:
            features = extract(image)
            loss = tf.reduce_mean((features["second"] - target) ** 2)
            loss += sum(0.1 * tf.reduce_sum((gram(features[name]) - wanted[name]) ** 2) for name in wanted)
            loss += 1e-4 * tf.reduce_sum(tf.image.total_variation(image))
        gradient = tape.gradient(loss, image)
        optimizer.apply_gradients([(gradient, image)])
        return loss

    return step


schedule = keras.optimizers.schedules.ExponentialDecay(0.05, decay_steps=5, decay_rate=0.9)
optimizer = keras.optimizers.SGD(schedule)
image = tf.Variable(content)
wanted = {name: gram(value) for name, value in extract(style).items()}
step = make_step(optimizer, extract(content)["second"], wanted)
result_losses = [float(step(image)) for _ in range(12)]
result_image = image.numpy()
