"""Read examples from files: every worker reads files of its own."""

import tempfile
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(42)

random = np.random.RandomState(0)
x = random.normal(size=(192, 4)).astype("float32")
y = x.sum(axis=1, keepdims=True)
folder = Path(tempfile.mkdtemp())


def to_record(features, target):
    fields = {
        "x": tf.train.Feature(float_list=tf.train.FloatList(value=features)),
        "y": tf.train.Feature(float_list=tf.train.FloatList(value=target)),
    }
    return tf.train.Example(features=tf.train.Features(feature=fields)).SerializeToString()


def parse(record):
    example = tf.io.parse_single_example(
        record, {"x": tf.io.FixedLenFeature((4,), tf.float32), "y": tf.io.FixedLenFeature((1,), tf.float32)}
    )
    return example["x"], example["y"]


for number in range(4):
    with tf.io.TFRecordWriter(str(folder / f"{number}.tfrecord")) as writer:
        for index in range(number, 192, 4):
            writer.write(to_record(x[index], y[index]))

files = tf.data.Dataset.list_files(str(folder / "*.tfrecord"), shuffle=False)
dataset = files.interleave(tf.data.TFRecordDataset, cycle_length=2, num_parallel_calls=2).map(parse).batch(32)

with strategy.scope():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1)])
    model.compile(optimizer="adam", loss="mse")

history = model.fit(dataset, epochs=2, verbose=2)
