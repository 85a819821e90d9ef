"""Balance a rod with a policy and a critic: each worker plays by itself, and a step has the episodes of all."""

import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(58)

DISCOUNT = 0.95
EPISODES = 4
STEPS = 20

with strategy.scope():
    inputs = keras.Input((2,))
    common = keras.layers.Dense(16, activation="relu")(inputs)
    policy = keras.layers.Dense(2, activation="softmax")(common)
    critic = keras.layers.Dense(1)(common)
    model = keras.Model(inputs, [policy, critic])
    optimizer = keras.optimizers.Adam(0.01)
    huber = keras.losses.Huber(reduction="sum")


def play(random):
    """Return the observations, the actions and the rewards of an episode."""
    angle, velocity = random.uniform(-0.1, 0.1, 2)
    observations, actions, rewards = [], [], []
    while abs(angle) < 0.5 and len(rewards) < STEPS:
        observation = np.array([angle, velocity], "float32")
        probabilities, _ = model(observation[None])
        probabilities = probabilities[0].numpy().astype("float64")
        action = random.choice(2, p=probabilities / probabilities.sum())
        velocity += 0.1 * angle + (0.05 if action else -0.05)
        angle += velocity
        observations.append(observation)
        actions.append(action)
        rewards.append(1.0)
    return np.array(observations), np.array(actions), np.array(rewards, "float32")


def returns_of(rewards):
    returns, following = [], 0.0
    for reward in rewards[::-1]:
        following = reward + DISCOUNT * following
        returns.append(following)
    returns = np.array(returns[::-1], "float32")
    return (returns - returns.mean()) / (returns.std() + 1e-8)


def train_step(observations, actions, returns):
    with tf.GradientTape() as tape:
        probabilities, values = model(observations, training=True)
        chosen = tf.gather(probabilities, actions, axis=1, batch_dims=1)
        advantages = returns - values[:, 0]
        actor_loss = -tf.reduce_sum(tf.math.log(chosen) * tf.stop_gradient(advantages))
        loss = (actor_loss + huber(returns[:, None], values)) / strategy.num_replicas_in_sync
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return loss


@tf.function(reduce_retracing=True)
def train_on_episodes(*episode):
    return strategy.reduce("SUM", strategy.run(train_step, args=episode), axis=None)


@tf.function
def total_of(number):
    return strategy.reduce("SUM", strategy.run(tf.identity, args=(number,)), axis=None)


random = np.random.default_rng([1, strategy.cluster_resolver.task_id or 0])
result_losses, result_lengths = [], []
for _ in range(EPISODES):
    observations, actions, rewards = play(random)
    loss = train_on_episodes(*map(tf.convert_to_tensor, (observations, actions, returns_of(rewards))))
    result_losses.append(float(loss))
    result_lengths.append(int(total_of(tf.constant(len(rewards)))))
