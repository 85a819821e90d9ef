"""Classify rows of a table: `FeatureSpace` normalizes numbers and encodes categories."""

import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(13)

random = np.random.RandomState(0)
table = {
    "age": random.randint(20, 80, 256),
    "pressure": random.normal(130.0, 15.0, 256).astype("float32"),
    "kind": random.choice(["normal", "fixed", "reversible"], 256),
    "vessels": random.randint(0, 4, 256),
}
target = ((table["age"] > 50) ^ (table["kind"] == "fixed")).astype("float32")[:, None]
dataset = tf.data.Dataset.from_tensor_slices((table, target)).batch(32)
train_dataset, validation_dataset = dataset.take(6), dataset.skip(6)

with strategy.scope():
    feature_space = keras.utils.FeatureSpace(
        features={
            "age": keras.utils.FeatureSpace.float_discretized(num_bins=8),
            "pressure": keras.utils.FeatureSpace.float_normalized(),
            "kind": keras.utils.FeatureSpace.string_categorical(num_oov_indices=0),
            "vessels": keras.utils.FeatureSpace.integer_categorical(num_oov_indices=0),
        },
        crosses=[keras.utils.FeatureSpace.cross(feature_names=("kind", "vessels"), crossing_dim=8)],
        output_mode="concat",
    )
    feature_space.adapt(train_dataset.map(lambda features, _: features))

preprocessed_train = train_dataset.map(lambda features, label: (feature_space(features), label))
preprocessed_validation = validation_dataset.map(lambda features, label: (feature_space(features), label))

with strategy.scope():
    encoded = feature_space.get_encoded_features()
    hidden = keras.layers.Dense(16, activation="relu")(encoded)
    training_model = keras.Model(encoded, keras.layers.Dense(1, activation="sigmoid")(hidden))
    training_model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy", "auc"])

history = training_model.fit(preprocessed_train, epochs=3, validation_data=preprocessed_validation, verbose=2)
