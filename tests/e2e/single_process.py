"""Evaluates a checkpoint in one process, without any code of the trainer: `single_process.py CHECKPOINT FILES`.

The network is written out again, the records are parsed one by one, and the metrics are numpy sums in float64. Prints
JSON: examples, accuracy, loss.
"""

import glob
import json
import sys

import keras
import numpy as np
import tensorflow as tf

checkpoint, pattern = sys.argv[1:]
layers = keras.layers
image = hidden = layers.Input((28, 28, 1), dtype="uint8")
for layer in (
    layers.Rescaling(1 / 255),
    layers.Conv2D(16, 5, strides=2, padding="same"),
    layers.ReLU(),
    layers.Conv2D(32, 3, strides=2, padding="same"),
    layers.ReLU(),
    layers.Flatten(),
    layers.Dense(64),
    layers.ReLU(),
    layers.Dense(10),
):
    hidden = layer(hidden)
model = keras.Model(image, hidden)
status = tf.train.Checkpoint(model=model).read(f"{checkpoint}/variables")
status.assert_existing_objects_matched()

images, labels = [], []
for record in tf.data.TFRecordDataset(sorted(glob.glob(pattern))):  # noqa: PTH207  a pattern with a path in it
    features = tf.train.Example.FromString(record.numpy()).features.feature
    images.append(np.frombuffer(features["image"].bytes_list.value[0], np.uint8).reshape(28, 28, 1))
    labels.append(features["label"].int64_list.value[0])

logits = model.predict(np.stack(images), batch_size=500, verbose=0).astype(np.float64)
shifted = logits - logits.max(axis=1, keepdims=True)
log_probability = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
truth = np.array(labels)
result = {
    "examples": len(truth),
    "accuracy": float((logits.argmax(axis=1) == truth).mean()),
    "loss": float(-log_probability[np.arange(len(truth)), truth].mean()),
}
print(json.dumps(result))
