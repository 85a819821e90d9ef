"""Save a model, load it and train on; export it for serving."""

import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(40)

random = np.random.RandomState(0)
x = random.normal(size=(192, 6)).astype("float32")
y = x[:, :1] - 2.0 * x[:, 1:2]
dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(32)

with strategy.scope():
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1)])
    model.compile(optimizer=keras.optimizers.Adam(0.01), loss="mse")

history = model.fit(dataset, epochs=2, verbose=2)
model.save("model.keras")
model.save_weights("model.weights.h5")

with strategy.scope():
    loaded_model = keras.models.load_model("model.keras")
result_difference = np.abs(loaded_model.predict(x[:32], verbose=0) - model.predict(x[:32], verbose=0)).max()
loaded_history = loaded_model.fit(dataset, epochs=1, verbose=2)

loaded_model.load_weights("model.weights.h5")
scores = loaded_model.evaluate(dataset, verbose=0)

model.export("exported")
served = tf.saved_model.load("exported")
result_served = served.serve(x[:5]).numpy()
