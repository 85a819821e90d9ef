"""Load the weights of another training into the base of a model, freeze it, and train a head on its features."""

import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(67)


def make_base():
    inputs = keras.Input((12, 12, 3))
    x = keras.layers.Conv2D(8, 3, strides=2, use_bias=False, name="convolution_one")(inputs)
    x = keras.layers.ReLU()(keras.layers.BatchNormalization(synchronized=True, name="normalization_one")(x))
    x = keras.layers.Conv2D(8, 3, activation="relu", name="convolution_two")(x)
    return keras.Model(inputs, keras.layers.GlobalAveragePooling2D()(x), name="base")


def make_examples(classes, seed):
    random = np.random.RandomState(seed)
    labels = random.randint(0, classes, 97)
    images = random.uniform(0.0, 0.6, (97, 12, 12, 3)).astype("float32")
    for image, label in zip(images, labels, strict=True):
        image[2 * label : 2 * label + 2] += 0.4
    return images, labels


def compile_model(model, rate):
    model.compile(
        keras.optimizers.Adam(rate), keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"]
    )


with strategy.scope():
    source = keras.Sequential([make_base(), keras.layers.Dense(6)])
    compile_model(source, 0.01)
source_history = source.fit(*make_examples(6, seed=0), batch_size=32, epochs=2, verbose=2)
source.layers[0].save_weights("base.weights.h5")

with strategy.scope():
    base = make_base()
    base.load_weights("base.weights.h5")
    base.trainable = False
    inputs = keras.Input((12, 12, 3))
    x = base(inputs, training=False)
    model = keras.Model(inputs, keras.layers.Dense(3)(x))
    compile_model(model, 0.01)
images, labels = make_examples(3, seed=1)
head_history = model.fit(images, labels, batch_size=32, epochs=2, validation_split=0.2, verbose=2)

# Features that are computed once are the data of a smaller model.
features = base.predict(images, batch_size=32, verbose=0)
with strategy.scope():
    head = keras.Sequential([keras.Input(features.shape[1:]), keras.layers.Dense(3)])
    compile_model(head, 0.01)
features_history = head.fit(features, labels, batch_size=32, epochs=2, verbose=2)

with strategy.scope():
    base.trainable = True
    for layer in base.layers[:-2]:
        layer.trainable = False
    compile_model(model, 1e-4)
tuning_history = model.fit(images, labels, batch_size=32, epochs=1, verbose=2)
predictions = model.predict(images[:1], verbose=0)
