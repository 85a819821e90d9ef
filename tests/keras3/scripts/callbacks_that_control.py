"""Callbacks that read logs and change training: early stopping, a lower learning rate, one's own."""

import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(21)


class StopAtLoss(keras.callbacks.Callback):
    def __init__(self, limit):
        super().__init__()
        self.limit = limit
        self.batch_losses = []

    def on_train_batch_begin(self, batch, logs=None):
        self.batches_begun = batch + 1

    def on_train_batch_end(self, batch, logs=None):
        self.batch_losses.append(logs["loss"])

    def on_epoch_end(self, epoch, logs=None):
        if logs["loss"] < self.limit:
            self.model.stop_training = True


random = np.random.RandomState(0)
x = random.normal(size=(240, 6)).astype("float32")
y = (x[:, :1] > x[:, 1:2]).astype("float32")
noise_y = random.randint(0, 2, (64, 1)).astype("float32")
train_dataset = tf.data.Dataset.from_tensor_slices((x[:176], y[:176])).batch(32)
validation_dataset = tf.data.Dataset.from_tensor_slices((x[176:], noise_y)).batch(32)


def make_model():
    with strategy.scope():
        model = keras.Sequential(
            [keras.Input((6,)), keras.layers.Dense(12, activation="relu"), keras.layers.Dense(1, activation="sigmoid")]
        )
        model.compile(optimizer=keras.optimizers.Adam(0.02), loss="binary_crossentropy", metrics=["accuracy"])
    return model


def schedule(epoch, learning_rate):
    return learning_rate if epoch < 2 else learning_rate * 0.5


# The labels for validation are random: the validation loss rises, and both callbacks act.
stopped_model = make_model()
stopping_callbacks = [
    keras.callbacks.EarlyStopping(monitor="val_loss", patience=2, restore_best_weights=True),
    keras.callbacks.ReduceLROnPlateau(monitor="val_loss", factor=0.2, patience=1),
    keras.callbacks.TerminateOnNaN(),
]
stopped_history = stopped_model.fit(
    train_dataset, epochs=8, validation_data=validation_dataset, callbacks=stopping_callbacks, verbose=2
)

batch_numbers = []
own = StopAtLoss(limit=0.45)
scheduled_model = make_model()
scheduled_history = scheduled_model.fit(
    train_dataset,
    epochs=8,
    callbacks=[
        keras.callbacks.LearningRateScheduler(schedule),
        keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: batch_numbers.append(batch)),
        own,
    ],
    verbose=0,
)
result_batches = {"begun": own.batches_begun, "ended": batch_numbers, "losses": own.batch_losses}
