"""Estimate the error from few examples: a model for each fold, which is evaluated on it."""

import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(62)

FOLDS = 3

random = np.random.RandomState(0)
x = random.normal(5.0, 2.0, (101, 6)).astype("float32")
y = (x[:, :1] - 0.5 * x[:, 1:2] + random.normal(0.0, 0.1, (101, 1))).astype("float32")
order = random.permutation(len(x))


def make_model(training_x):
    with strategy.scope():
        normalization = keras.layers.Normalization()
        normalization.adapt(training_x)
        model = keras.Sequential(
            [keras.Input((6,)), normalization, keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1)]
        )
        model.compile(optimizer=keras.optimizers.RMSprop(0.01), loss="mse", metrics=["mae"])
    return model


result_errors, result_histories = [], []
for fold in range(FOLDS):
    validation = order[fold::FOLDS]
    training = np.setdiff1d(order, validation)
    model = make_model(x[training])
    history = model.fit(
        x[training],
        y[training],
        validation_data=(x[validation], y[validation]),
        batch_size=16,
        epochs=2,
        shuffle=False,
        verbose=0,
    )
    result_histories.append(history.history["val_mae"])
    result_errors.append(
        model.evaluate(x[validation], y[validation], batch_size=16, verbose=0, return_dict=True)["mae"]
    )

print("mean error of the folds:", np.mean(result_errors))
