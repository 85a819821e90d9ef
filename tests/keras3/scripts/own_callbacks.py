"""Write callbacks: print and change the learning rate, keep the best weights, count the calls of each hook."""

import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(62)


class RateOfEpoch(keras.callbacks.Callback):
    """Sets the learning rate of each epoch by a table, and keeps what it was before."""

    def __init__(self, table):
        super().__init__()
        self.table = table
        self.seen = []

    def on_epoch_begin(self, epoch, logs=None):
        before = float(self.model.optimizer.learning_rate)
        after = dict(self.table).get(epoch, before)
        self.model.optimizer.learning_rate = after
        self.seen.append(before)
        print(f"epoch {epoch}: learning rate {float(keras.ops.convert_to_numpy(self.model.optimizer.learning_rate))}")


class StopAtMinimum(keras.callbacks.Callback):
    def __init__(self, patience):
        super().__init__()
        self.patience = patience
        self.best_weights = None

    def on_train_begin(self, logs=None):
        self.waited, self.stopped_epoch, self.best = 0, -1, np.inf

    def on_epoch_end(self, epoch, logs=None):
        current = logs.get("val_loss")
        if np.less(current, self.best):
            self.best, self.waited = current, 0
            self.best_weights = self.model.get_weights()
            return
        self.waited += 1
        if self.waited >= self.patience:
            self.stopped_epoch = epoch
            self.model.stop_training = True
            self.model.set_weights(self.best_weights)


class Counter(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.calls = {}
        self.losses = []

    def count(self, hook):
        self.calls[hook] = self.calls.get(hook, 0) + 1

    def on_train_begin(self, logs=None):
        self.count("train_begin")

    def on_train_batch_end(self, batch, logs=None):
        self.count("train_batch_end")
        self.losses.append(logs["loss"])

    def on_test_begin(self, logs=None):
        self.count("test_begin")

    def on_test_batch_end(self, batch, logs=None):
        self.count("test_batch_end")

    def on_predict_batch_end(self, batch, logs=None):
        self.count(f"predict_batch_end_of_{logs['outputs'].shape[-1]}")

    def on_predict_end(self, logs=None):
        self.count("predict_end")


random = np.random.RandomState(0)
x = random.normal(size=(150, 6)).astype("float32")
y = (x[:, :1] * x[:, 1:2]).astype("float32")

with strategy.scope():
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1)])
    model.compile(keras.optimizers.RMSprop(0.01), "mean_squared_error", metrics=["mean_absolute_error"])

rates, minimum, counter = RateOfEpoch([(1, 0.05), (3, 0.2)]), StopAtMinimum(patience=1), Counter()
history = model.fit(x, y, batch_size=32, epochs=9, validation_split=0.3, callbacks=[rates, minimum, counter], verbose=0)
scores = model.evaluate(x, y, batch_size=64, callbacks=[counter], verbose=0)
predictions = model.predict(x[:70], batch_size=32, callbacks=[counter], verbose=0)
result_rates = rates.seen
result_stopped = {"epoch": minimum.stopped_epoch, "best": minimum.best}
result_calls = counter.calls
result_losses = counter.losses
