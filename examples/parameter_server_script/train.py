"""A parameter-server script as TensorFlow's own guide has them: one program for all roles.

Workers and parameter servers run TensorFlow's server. The chief creates the variables, which a partitioner divides
over the parameter servers, and has a `ClusterCoordinator` schedule steps on whichever worker is free.
"""

import glob
import os

os.environ["TF_USE_LEGACY_KERAS"] = "1"  # before TensorFlow: variables of Keras 3 cannot be divided

import tensorflow as tf

import tfdist_trainer

BATCH_SIZE = 64
EPOCHS = 2
STEPS_PER_EPOCH = 400


def main():
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if resolver.task_type in ("worker", "ps"):
        serve(resolver)
    coordinate(resolver)


def serve(resolver):
    """Run TensorFlow's server; it never returns, and the pod is removed when the chief has succeeded."""
    config = tf.compat.v1.ConfigProto()
    config.inter_op_parallelism_threads = max(4, resolver.cluster_spec().num_tasks("worker") + 1)
    server = tf.distribute.Server(
        resolver.cluster_spec(), resolver.task_type, resolver.task_id, protocol="grpc", config=config
    )
    server.join()


def examples(pattern):
    def parse(record):
        features = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
        example = tf.io.parse_single_example(record, features)
        return tf.cast(tf.io.decode_raw(example["image"], tf.uint8), tf.float32) / 255, example["label"]

    return tf.data.TFRecordDataset(sorted(glob.glob(pattern))).map(parse)


def coordinate(resolver):
    partitioner = tf.distribute.experimental.partitioners.MinSizePartitioner(min_shard_bytes=64 << 10, max_shards=2)
    strategy = tf.distribute.ParameterServerStrategy(resolver, variable_partitioner=partitioner)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        layers = [tf.keras.layers.Dense(128, activation="relu", input_shape=(784,)), tf.keras.layers.Dense(10)]
        model = tf.keras.Sequential(layers)
        optimizer = tf.keras.optimizers.legacy.SGD(0.1)
    for variable in model.layers[0].kernel.variables:
        print(f"{variable.name} {variable.shape} on {variable.device}", flush=True)

    @tf.function
    def step(iterator):
        def on_replica(images, labels):
            with tf.GradientTape() as tape:
                losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, model(images, training=True))
                loss = tf.reduce_mean(losses)
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            return loss

        return strategy.run(on_replica, args=next(iterator))

    def dataset():  # traced here and run on every worker, which reads in an order of its own
        return examples("/data/train-*.tfrecord").shuffle(5000).repeat().batch(BATCH_SIZE).prefetch(2)

    iterator = iter(coordinator.create_per_worker_dataset(dataset))
    for epoch in range(1, EPOCHS + 1):
        losses = [coordinator.schedule(step, args=(iterator,)) for _ in range(STEPS_PER_EPOCH)]
        coordinator.join()
        metrics = {"loss": sum(float(loss.fetch()) for loss in losses) / len(losses), "accuracy": accuracy(model)}
        tfdist_trainer.report(step=epoch * STEPS_PER_EPOCH, total_steps=EPOCHS * STEPS_PER_EPOCH, metrics=metrics)
        print(f"epoch {epoch}: {metrics}", flush=True)


def accuracy(model):
    right = count = 0
    for images, labels in examples("/data/test-*.tfrecord").batch(1000):
        right += int(tf.reduce_sum(tf.cast(tf.argmax(model(images), axis=-1) == labels, tf.int64)))
        count += len(labels)
    return right / count


if __name__ == "__main__":
    main()
