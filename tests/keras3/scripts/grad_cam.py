"""Show which pixels decide: the gradient of a class with respect to the last feature map of one image."""

import keras
import numpy as np
import tensorflow as tf

random = np.random.RandomState(0)
labels = random.randint(0, 4, 129)
images = random.uniform(0.0, 0.4, (129, 12, 12, 1)).astype("float32")
for image, label in zip(images, labels, strict=True):
    row, column = 6 * (label // 2), 6 * (label % 2)
    image[row + 1 : row + 5, column + 1 : column + 5] += 0.6

keras.utils.set_random_seed(52)
strategy = tf.distribute.MultiWorkerMirroredStrategy()

with strategy.scope():
    model = keras.Sequential(
        [
            keras.Input((12, 12, 1)),
            keras.layers.Conv2D(8, 3, padding="same", activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Conv2D(8, 3, padding="same", activation="relu", name="last_convolution"),
            keras.layers.Flatten(),
            keras.layers.Dense(4, name="classes"),
        ]
    )
    model.compile(
        keras.optimizers.Adam(0.01), keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"]
    )

history = model.fit(images, labels, batch_size=32, epochs=3, verbose=2)


def make_heatmap(image):
    inside = keras.Model(model.inputs, [model.get_layer("last_convolution").output, model.outputs[0]])
    with tf.GradientTape() as tape:
        feature_map, scores = inside(image[None])
        best = scores[0, tf.argmax(scores[0])]
    gradient = tape.gradient(best, feature_map)
    heatmap = tf.reduce_sum(feature_map[0] * tf.reduce_mean(gradient, axis=(0, 1, 2)), axis=-1)
    heatmap = tf.maximum(heatmap, 0.0)
    return (heatmap / (tf.reduce_max(heatmap) + 1e-6)).numpy()


predictions = model.predict(images[:1], verbose=0)
result_heatmap = make_heatmap(images[0])

# The same for the pixels: the saliency of an image.
pixels = tf.Variable(images[1:2])
with tf.GradientTape() as tape:
    score = tf.reduce_max(model(pixels, training=False), axis=-1)
result_saliency = tape.gradient(score, pixels).numpy()
