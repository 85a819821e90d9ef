"""A Keras script: `fit` on the device of each worker, alone or with others that share it; the results are JSON.

Arguments: the file for the results, the kind of device, and the memory of a GPU that a worker may use, in MiB.
"""

import json
import os
import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

file, kind, mib = sys.argv[1:]
for gpu in tf.config.list_physical_devices("GPU"):
    tf.config.set_logical_device_configuration(gpu, [tf.config.LogicalDeviceConfiguration(memory_limit=int(mib))])
tf.config.experimental.enable_tensor_float_32_execution(False)
implementation = tf.distribute.experimental.CommunicationImplementation.RING  # NCCL has no two workers on one GPU
options = tf.distribute.experimental.CommunicationOptions(implementation=implementation)
if "TF_CONFIG" in os.environ:
    strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
else:
    strategy = tf.distribute.OneDeviceStrategy(kind)

random = np.random.default_rng(7)
images = random.normal(size=(150, 8, 8, 3)).astype("float32")
labels = random.integers(0, 4, 150)
keras.utils.set_random_seed(7)
with strategy.scope():
    body = [keras.layers.Conv2D(4, 3, activation="relu"), keras.layers.Flatten(), keras.layers.Dense(4)]
    model = keras.Sequential([keras.Input((8, 8, 3)), *body])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=["accuracy"])
history = model.fit(images, labels, batch_size=64, epochs=3, shuffle=False, verbose=0).history
value = model.trainable_variables[0].value
results = {
    "history": history,
    "weights": [weight.tolist() for weight in model.get_weights()],
    "devices": [each.device for each in getattr(value, "values", (value,))],
}
Path(file).write_text(json.dumps(results))
