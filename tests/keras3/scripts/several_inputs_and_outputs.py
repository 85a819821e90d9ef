"""A model with three inputs and two outputs, with losses, weights and metrics by name."""

import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(18)

random = np.random.RandomState(0)
title = random.randint(0, 40, (256, 6))
body = random.randint(0, 40, (256, 12))
tags = random.randint(0, 2, (256, 4)).astype("float32")
features = {"title": title, "body": body, "tags": tags}
targets = {
    "priority": (title.mean(axis=1, keepdims=True) / 40.0).astype("float32"),
    "department": np.eye(3, dtype="float32")[body[:, 0] % 3],
}

with strategy.scope():
    title_input = keras.Input((6,), name="title", dtype="int32")
    body_input = keras.Input((12,), name="body", dtype="int32")
    tags_input = keras.Input((4,), name="tags")
    title_features = keras.layers.GlobalAveragePooling1D()(keras.layers.Embedding(40, 8)(title_input))
    body_features = keras.layers.GRU(6)(keras.layers.Embedding(40, 8)(body_input))
    x = keras.layers.concatenate([title_features, body_features, tags_input])
    priority = keras.layers.Dense(1, name="priority")(x)
    department = keras.layers.Dense(3, name="department")(x)
    model = keras.Model(
        inputs={"title": title_input, "body": body_input, "tags": tags_input},
        outputs={"priority": priority, "department": department},
    )
    model.compile(
        optimizer=keras.optimizers.RMSprop(1e-3),
        loss={
            "priority": keras.losses.BinaryCrossentropy(from_logits=True),
            "department": keras.losses.CategoricalCrossentropy(from_logits=True),
        },
        metrics={"department": ["categorical_accuracy"]},
        loss_weights={"priority": 1.0, "department": 0.2},
    )

dataset = tf.data.Dataset.from_tensor_slices((features, targets)).batch(32)
history = model.fit(dataset, epochs=2, verbose=2)
scores = model.evaluate(dataset, verbose=0, return_dict=True)
predictions = model.predict(features, batch_size=32, verbose=0)
