"""Export a trained model with preprocessing and endpoints of one's own, and call what was written."""

import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(64)

random = np.random.RandomState(0)
words = np.array(["red", "green", "blue", "black"])
colors = words[random.randint(0, 4, 128)]
sizes = random.uniform(0.0, 10.0, (128, 1)).astype("float32")
prices = (sizes + 3.0 * (colors == "red")[:, None]).astype("float32")

lookup = keras.layers.StringLookup(output_mode="one_hot")
lookup.adapt(colors)


def encode(colors):
    return tf.cast(lookup(colors), tf.float32)


dataset = tf.data.Dataset.from_tensor_slices(({"color": encode(colors), "size": sizes}, prices)).batch(32)

with strategy.scope():
    color = keras.Input((5,), name="color")
    size = keras.Input((1,), name="size")
    hidden = keras.layers.Dense(8, activation="relu", name="hidden")(keras.layers.Concatenate()([color, size]))
    model = keras.Model({"color": color, "size": size}, keras.layers.Dense(1)(hidden))
    model.compile(keras.optimizers.Adam(0.01), "mse")

history = model.fit(dataset, epochs=3, verbose=2)


@tf.function(input_signature=[tf.TensorSpec([None], tf.string), tf.TensorSpec([None, 1], tf.float32)])
def from_words(colors, sizes):
    return {"price": model({"color": encode(colors), "size": sizes}, training=False)}


archive = keras.export.ExportArchive()
archive.track(model)
archive.track(lookup)
archive.add_endpoint(
    name="call",
    fn=lambda inputs: model(inputs, training=False),
    input_signature=[{"color": tf.TensorSpec([None, 5], tf.float32), "size": tf.TensorSpec([None, 1], tf.float32)}],
)
archive.add_endpoint(name="serve", fn=from_words)
archive.write_out("archive")

served = tf.saved_model.load("archive")
result_called = served.call({"color": encode(colors[:4]), "size": sizes[:4]}).numpy()
result_served = served.serve(tf.constant(["red", "pink"]), tf.constant([[1.0], [2.0]]))["price"].numpy()
again = keras.layers.TFSMLayer("archive", call_endpoint="call")
result_layer = np.asarray(again({"color": encode(colors[:3]), "size": sizes[:3]}))
