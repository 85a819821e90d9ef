"""Train with a loop of one's own: `strategy.run` for each step, losses divided by the global batch size."""

import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(3)

GLOBAL_BATCH_SIZE = 32
EPOCHS = 3

random = np.random.RandomState(0)
x = random.normal(size=(256, 6)).astype("float32")
y = (x @ random.normal(size=(6, 1)) + 0.1).astype("float32")

dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(GLOBAL_BATCH_SIZE)
distributed_dataset = strategy.experimental_distribute_dataset(dataset)

with strategy.scope():
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, activation="tanh"), keras.layers.Dense(1)])
    optimizer = keras.optimizers.SGD(0.05, momentum=0.9)
    error = keras.metrics.MeanSquaredError()


def train_step(batch):
    features, labels = batch
    with tf.GradientTape() as tape:
        outputs = model(features, training=True)
        per_example_loss = tf.reduce_sum(tf.square(outputs - labels), axis=-1)
        loss = tf.nn.compute_average_loss(per_example_loss, global_batch_size=GLOBAL_BATCH_SIZE)
    gradients = tape.gradient(loss, model.trainable_variables)
    # The optimizer adds up the gradients of all replicas.
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    error.update_state(labels, outputs)
    label_sum = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, tf.reduce_sum(labels))
    return loss, label_sum


@tf.function
def distributed_train_step(batch):
    losses, label_sums = strategy.run(train_step, args=(batch,))
    # Every replica has the sum already: their mean is the same number.
    label_sum = strategy.reduce(tf.distribute.ReduceOp.MEAN, label_sums, axis=None)
    return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None), label_sum


result_losses = []
result_label_sums = []
result_errors = []
for _ in range(EPOCHS):
    steps = [distributed_train_step(batch) for batch in distributed_dataset]
    result_losses.append(np.mean([loss.numpy() for loss, _ in steps]))
    result_label_sums.append([label_sum.numpy() for _, label_sum in steps])
    result_errors.append(float(error.result()))
    error.reset_state()
