"""A training loop of one's own under MultiWorkerMirroredStrategy, on Fashion-MNIST.

Every worker runs this script. `strategy.run` computes a step on each replica, the optimizer adds up the gradients of
all, and `strategy.reduce` makes one number of the replicas' losses. Sums are added and divided once: means of means
would be wrong as soon as one worker has fewer examples.
"""

import glob

import keras
import numpy as np
import tensorflow as tf

import tfdist_trainer

BATCH_SIZE = 128
"""Of all workers together."""
EPOCHS = 2

strategy = tf.distribute.MultiWorkerMirroredStrategy()  # reads TF_CONFIG; the first thing TensorFlow does


def read(pattern: str) -> tf.data.Dataset:
    """Return images, float32 [784], and labels of the .npz files that a pattern names."""
    files = [np.load(name) for name in sorted(glob.glob(pattern))]
    images = np.concatenate([file["image"] for file in files]).reshape(-1, 784)
    labels = np.concatenate([file["label"] for file in files])
    return tf.data.Dataset.from_tensor_slices((images, labels)).map(lambda x, y: (tf.cast(x, tf.float32) / 255, y))


def of_this_worker(data: tf.data.Dataset, context: tf.distribute.InputContext) -> tf.data.Dataset:
    """Return every n-th example, in batches of this worker's replicas."""
    part = data.shard(context.num_input_pipelines, context.input_pipeline_id)
    return part.batch(context.get_per_replica_batch_size(BATCH_SIZE)).prefetch(2)


train, test = read("/examples/npz/train-0000[01]-*.npz"), read("/examples/npz/test-*.npz")
steps = int(train.cardinality()) // BATCH_SIZE
train = train.shuffle(20_000, seed=1).repeat(EPOCHS)
train_batches = strategy.distribute_datasets_from_function(lambda context: of_this_worker(train, context))
test_batches = strategy.distribute_datasets_from_function(lambda context: of_this_worker(test, context))

with strategy.scope():
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [keras.layers.Input([784]), keras.layers.Dense(128, activation="relu"), keras.layers.Dense(10)]
    )
    optimizer = keras.optimizers.Adam(0.001)
    optimizer.build(model.trainable_variables)


@tf.function
def train_step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Take a step on every replica and return the sum of all examples' losses."""

    def on_replica(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            losses = keras.losses.sparse_categorical_crossentropy(labels, model(images), from_logits=True)
            loss = tf.nn.compute_average_loss(losses, global_batch_size=BATCH_SIZE)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return tf.reduce_sum(losses)

    per_replica = strategy.run(on_replica, args=(images, labels))
    return strategy.reduce(tf.distribute.ReduceOp.SUM, per_replica, axis=None)


@tf.function
def count_right(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Return how many examples are classified right, and how many there are, over all replicas: int64 [2]."""

    def on_replica(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        right = tf.reduce_sum(tf.cast(tf.argmax(model(images), axis=-1) == labels, tf.int64))
        return tf.stack([right, tf.size(labels, tf.int64)])

    return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(on_replica, args=(images, labels)), axis=None)


iterator = iter(train_batches)
for epoch in range(EPOCHS):
    total = 0.0
    for step in range(1, steps + 1):
        total += float(train_step(*next(iterator)))
        metrics = {"loss": total / (step * BATCH_SIZE)}
        # The one line that the project gets to know of this script; without it the job runs as well.
        tfdist_trainer.report(step=epoch * steps + step, total_steps=EPOCHS * steps, epoch=epoch, metrics=metrics)
    right, count = np.sum([count_right(*batch).numpy() for batch in test_batches], axis=0)
    metrics["accuracy"] = right / count
    tfdist_trainer.report(step=(epoch + 1) * steps, epoch=epoch + 1, metrics=metrics)
    print(f"epoch {epoch + 1}: loss {metrics['loss']:.4f}, accuracy {right} of {count}", flush=True)
