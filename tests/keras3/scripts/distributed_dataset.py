"""Give `fit` a data set that is distributed already, and one that is made on each worker."""

import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(41)

random = np.random.RandomState(0)
x = random.normal(size=(192, 6)).astype("float32")
y = x[:, :1] * x[:, 1:2]
GLOBAL_BATCH_SIZE = 32

dataset = tf.data.Dataset.from_tensor_slices((x, y))


def make_dataset(context):
    batch_size = context.get_per_replica_batch_size(GLOBAL_BATCH_SIZE)
    # Parts of a global batch follow each other, so that a step has the same examples on any number of workers.
    return dataset.batch(batch_size).shard(context.num_input_pipelines, context.input_pipeline_id)


with strategy.scope():
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1)])
    model.compile(optimizer="adam", loss="mse")

distributed = strategy.experimental_distribute_dataset(dataset.batch(GLOBAL_BATCH_SIZE))
history = model.fit(distributed, epochs=2, steps_per_epoch=6, verbose=2)
made_on_workers = strategy.distribute_datasets_from_function(make_dataset)
own_history = model.fit(made_on_workers, epochs=2, steps_per_epoch=6, verbose=2)
scores = model.evaluate(distributed, steps=6, verbose=0)
