"""Learning rates that follow the number of the step."""

import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(24)

random = np.random.RandomState(0)
x = random.normal(size=(192, 4)).astype("float32")
y = x @ np.array([[1.0], [-2.0], [0.5], [0.0]], "float32")
dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(32)


class WarmUp(keras.optimizers.schedules.LearningRateSchedule):
    def __init__(self, peak, steps):
        self.peak, self.steps = peak, steps

    def __call__(self, step):
        step = keras.ops.cast(step, "float32") + 1.0
        return self.peak * keras.ops.minimum(step / self.steps, keras.ops.sqrt(self.steps / step))

    def get_config(self):
        return {"peak": self.peak, "steps": self.steps}


def fit(make_optimizer):
    keras.utils.set_random_seed(24)
    with strategy.scope():
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(6, activation="tanh"), keras.layers.Dense(1)])
        model.compile(optimizer=make_optimizer(), loss="mse")
    history = model.fit(dataset, epochs=2, verbose=0)
    return {"history": history.history, "learning rate": float(model.optimizer.learning_rate)}


schedules = keras.optimizers.schedules
result_cosine = fit(lambda: keras.optimizers.AdamW(schedules.CosineDecay(0.05, decay_steps=12), weight_decay=0.01))
result_decay = fit(lambda: keras.optimizers.SGD(schedules.ExponentialDecay(0.05, 3, 0.5, staircase=True), momentum=0.9))
result_constant = fit(lambda: keras.optimizers.Adam(schedules.PiecewiseConstantDecay([4, 8], [0.05, 0.02, 0.01])))
result_warm_up = fit(lambda: keras.optimizers.RMSprop(WarmUp(0.05, 4.0)))
