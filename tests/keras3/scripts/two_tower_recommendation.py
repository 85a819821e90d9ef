"""Find items for users by two towers: a user's item is compared with those of the other users of the batch."""

import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(61)

USERS, ITEMS, WIDTH = 40, 30, 8


class TwoTowers(keras.Model):
    def __init__(self):
        super().__init__()
        self.users = keras.Sequential([keras.layers.Embedding(USERS, WIDTH), keras.layers.Dense(WIDTH)])
        self.items = keras.Sequential([keras.layers.Embedding(ITEMS, WIDTH), keras.layers.Dense(WIDTH)])

    def call(self, inputs):
        return {"user": self.users(inputs["user"]), "item": self.items(inputs["item"])}

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        similarities = keras.ops.matmul(y_pred["user"], keras.ops.transpose(y_pred["item"]))
        labels = keras.ops.eye(keras.ops.shape(similarities)[0])
        return keras.ops.mean(keras.losses.categorical_crossentropy(labels, similarities, from_logits=True))


random = np.random.RandomState(0)
users = random.randint(0, USERS, 320)
items = (users + random.randint(0, 3, 320)) % ITEMS
dataset = tf.data.Dataset.from_tensor_slices({"user": users, "item": items}).batch(32)

with strategy.scope():
    model = TwoTowers()
    model.build({"user": (None,), "item": (None,)})
    model.compile(optimizer=keras.optimizers.Adagrad(0.1))

history = model.fit(dataset, epochs=3, verbose=2)

result_items = model.items.predict(np.arange(ITEMS), verbose=0)
result_nearest = np.argsort(model.users.predict(np.arange(5), verbose=0) @ result_items.T, axis=1)[:, ::-1][:, :3]
