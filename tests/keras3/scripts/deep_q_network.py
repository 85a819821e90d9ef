"""Learn to walk to a goal from replayed steps: values of actions, with a target that follows from time to time."""

from collections import deque

import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(57)

PLACES = 6
DISCOUNT = 0.9
BATCH_SIZE = 16


class Corridor:
    def reset(self):
        self.place = 0
        return self.observe()

    def step(self, action):
        self.place = max(0, self.place + (1 if action else -1))
        ended = self.place == PLACES - 1
        return self.observe(), 1.0 if ended else -0.05, ended

    def observe(self):
        return np.eye(PLACES, dtype="float32")[self.place]


def make_network():
    network = keras.Sequential(
        [keras.Input((PLACES,)), keras.layers.Dense(12, activation="relu"), keras.layers.Dense(2)]
    )
    network.compile(optimizer=keras.optimizers.Adam(0.01), loss=keras.losses.Huber())
    return network


with strategy.scope():
    network = make_network()
    target_network = make_network()
target_network.set_weights(network.get_weights())

random = np.random.default_rng(0)
replay = deque(maxlen=500)
corridor = Corridor()
result_losses, result_returns = [], []
for episode in range(6):
    state, total = corridor.reset(), 0.0
    for _ in range(12):
        if random.uniform() < 0.5:
            action = int(random.integers(2))
        else:
            action = int(network.predict_on_batch(state[None])[0].argmax())
        next_state, reward, ended = corridor.step(action)
        replay.append((state, action, reward, next_state, ended))
        state, total = next_state, total + reward
        if len(replay) >= BATCH_SIZE:
            chosen = [replay[place] for place in random.integers(len(replay), size=BATCH_SIZE)]
            states, actions, rewards, next_states, ends = map(np.array, zip(*chosen, strict=True))
            next_values = target_network.predict_on_batch(next_states).max(axis=1)
            values = np.array(network.predict_on_batch(states))
            values[np.arange(BATCH_SIZE), actions] = rewards + DISCOUNT * next_values * (1.0 - ends)
            result_losses.append(network.train_on_batch(states, values))
            network.reset_metrics()
        if ended:
            break
    result_returns.append(total)
    if episode % 2:
        target_network.set_weights(network.get_weights())
