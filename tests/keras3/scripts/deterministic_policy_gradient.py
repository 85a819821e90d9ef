"""Steer a point to the middle with a continuous action: a critic values actions, and both targets follow slowly."""

import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(70)

DISCOUNT, RATE, BATCH_SIZE = 0.9, 0.05, 16


def make_actor():
    return keras.Sequential(
        [keras.Input((1,)), keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1, activation="tanh")]
    )


def make_critic():
    place, action = keras.Input((1,)), keras.Input((1,))
    x = keras.layers.Dense(8, activation="relu")(keras.layers.Concatenate()([place, action]))
    return keras.Model([place, action], keras.layers.Dense(1)(x))


with strategy.scope():
    actor, target_actor, critic, target_critic = make_actor(), make_actor(), make_critic(), make_critic()
    actor_optimizer, critic_optimizer = keras.optimizers.Adam(0.002), keras.optimizers.Adam(0.01)
target_actor.set_weights(actor.get_weights())
target_critic.set_weights(critic.get_weights())


def step(places, actions, rewards, next_places):
    share = 1.0 / strategy.num_replicas_in_sync
    with tf.GradientTape() as tape:
        next_values = target_critic([next_places, target_actor(next_places, training=True)], training=True)
        values = critic([places, actions], training=True)
        critic_loss = share * tf.reduce_mean(tf.square(rewards + DISCOUNT * next_values - values))
    gradients = tape.gradient(critic_loss, critic.trainable_variables)
    critic_optimizer.apply_gradients(zip(gradients, critic.trainable_variables, strict=True))
    with tf.GradientTape() as tape:
        actor_loss = -share * tf.reduce_mean(critic([places, actor(places, training=True)], training=True))
    gradients = tape.gradient(actor_loss, actor.trainable_variables)
    actor_optimizer.apply_gradients(zip(gradients, actor.trainable_variables, strict=True))
    return critic_loss, actor_loss


@tf.function
def learn(batch):
    return [strategy.reduce("SUM", loss, axis=None) for loss in strategy.run(step, args=batch)]


def follow(target, model):
    pairs = zip(target.get_weights(), model.get_weights(), strict=True)
    target.set_weights([(1.0 - RATE) * slow + RATE * fast for slow, fast in pairs])


random = np.random.default_rng(3)
places = random.uniform(-1.0, 1.0, (400, 1)).astype("float32")
actions, rewards, next_places = np.zeros_like(places), np.zeros_like(places), np.zeros_like(places)
result_losses = []
for turn in range(60):
    action = actor(places[turn : turn + 1]).numpy() + random.normal(0.0, 0.2, (1, 1))
    actions[turn] = np.clip(action, -1.0, 1.0)
    next_places[turn] = np.clip(places[turn] + 0.3 * actions[turn], -1.0, 1.0)
    rewards[turn] = -np.abs(next_places[turn])
    if turn >= BATCH_SIZE:
        chosen = random.integers(turn + 1, size=BATCH_SIZE)
        batch = [tf.constant(each[chosen]) for each in (places, actions, rewards, next_places)]
        result_losses.append([float(loss) for loss in learn(tuple(batch))])
        follow(target_actor, actor)
        follow(target_critic, critic)
