"""Reverse words letter by letter: trained with the right letters so far, used with those that it has chosen."""

import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(51)

PADDING, START, END = 0, 1, 2
LETTERS = 14
LENGTH = 6
WIDTH = 16

random = np.random.RandomState(0)
written = [random.randint(3, LETTERS, random.randint(2, LENGTH + 1)) for _ in range(224)]
sources = keras.utils.pad_sequences(written, maxlen=LENGTH, padding="post")
targets = [[START, *reversed(word), END] for word in written]
targets = keras.utils.pad_sequences(targets, maxlen=LENGTH + 2, padding="post")


def as_inputs(source, target):
    return {"source": source, "so_far": target[:, :-1]}, target[:, 1:]


def masked_loss(y_true, y_pred):
    losses = keras.losses.sparse_categorical_crossentropy(y_true, y_pred, from_logits=True)
    # One number for each letter: Keras takes their mean.
    return losses * keras.ops.cast(keras.ops.not_equal(y_true, PADDING), losses.dtype)


def masked_accuracy(y_true, y_pred):
    chosen = keras.ops.cast(keras.ops.argmax(y_pred, axis=-1), y_true.dtype)
    # One number for each letter, of which Keras leaves out those that the model has masked.
    return keras.ops.cast(keras.ops.equal(chosen, y_true), "float32")


dataset = tf.data.Dataset.from_tensor_slices((sources, targets)).batch(32).map(as_inputs).cache()
train_dataset, validation_dataset = dataset.take(6), dataset.skip(6)

with strategy.scope():
    source = keras.Input((LENGTH,), dtype="int32", name="source")
    embedded = keras.layers.Embedding(LETTERS, WIDTH, mask_zero=True)(source)
    encoded, state = keras.layers.GRU(WIDTH, return_sequences=True, return_state=True)(embedded)
    so_far = keras.Input((None,), dtype="int32", name="so_far")
    decoded = keras.layers.Embedding(LETTERS, WIDTH, mask_zero=True)(so_far)
    decoded = keras.layers.GRU(WIDTH, return_sequences=True)(decoded, initial_state=state)
    attended = keras.layers.Attention()([decoded, encoded])
    outputs = keras.layers.Dense(LETTERS)(keras.layers.Concatenate()([decoded, attended]))
    model = keras.Model([source, so_far], outputs)
    model.compile(optimizer=keras.optimizers.Adam(0.01), loss=masked_loss, metrics=[masked_accuracy])

history = model.fit(train_dataset, epochs=2, validation_data=validation_dataset, verbose=2)

result_letters = np.full((5, 1), START)
for _ in range(LENGTH):
    logits = model.predict({"source": sources[:5], "so_far": result_letters}, verbose=0)
    result_letters = np.concatenate([result_letters, logits[:, -1].argmax(axis=-1)[:, None]], axis=1)
