"""Read letters out of a spectrogram with the loss of connectionist temporal classification."""

import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(55)

LETTERS = 5
FRAMES_PER_LETTER = 4

random = np.random.RandomState(0)
tones = random.normal(size=(LETTERS + 1, 8))
transcripts = [random.randint(1, LETTERS + 1, random.randint(2, 5)) for _ in range(104)]
spectrograms = [
    np.repeat(tones[transcript], FRAMES_PER_LETTER, axis=0) + random.normal(0.0, 0.1, (4 * len(transcript), 8))
    for transcript in transcripts
]


def recordings():
    yield from zip(spectrograms, transcripts, strict=True)


signature = (tf.TensorSpec((None, 8), tf.float32), tf.TensorSpec((None,), tf.int32))
dataset = tf.data.Dataset.from_generator(recordings, output_signature=signature).padded_batch(16)
# A generator has no length; without one, Keras counts a step too many at its end.
dataset = dataset.apply(tf.data.experimental.assert_cardinality(7)).cache()
train_dataset, validation_dataset = dataset.take(5), dataset.skip(5)


def ctc_loss(y_true, y_pred):
    rows, frames = keras.ops.shape(y_pred)[0], keras.ops.shape(y_pred)[1]
    target_lengths = keras.ops.sum(keras.ops.cast(y_true > 0, "int32"), axis=-1)
    return keras.ops.ctc_loss(y_true, y_pred, target_lengths, keras.ops.full((rows,), frames, dtype="int32"))


def decode(outputs):
    lengths = np.full(len(outputs), outputs.shape[1])
    [texts], _ = keras.ops.ctc_decode(outputs, lengths, strategy="greedy", mask_index=0)
    return keras.ops.convert_to_numpy(texts)


class Transcribe(keras.callbacks.Callback):
    def __init__(self, dataset):
        super().__init__()
        self.dataset = dataset
        self.errors = []

    def on_epoch_end(self, epoch, logs=None):
        errors = 0
        for batch, transcripts in self.dataset:
            texts = decode(self.model.predict(batch, verbose=0))
            for text, transcript in zip(texts, transcripts.numpy(), strict=True):
                errors += text[text > 0].tolist() != transcript[transcript > 0].tolist()
        self.errors.append(errors)
        print(f"{errors} transcripts have errors")


with strategy.scope():
    inputs = keras.Input((None, 8))
    x = keras.layers.Conv1D(16, 3, padding="same", activation="relu")(inputs)
    x = keras.layers.Bidirectional(keras.layers.GRU(8, return_sequences=True))(x)
    model = keras.Model(inputs, keras.layers.Dense(LETTERS + 1)(x))
    model.compile(optimizer=keras.optimizers.Adam(0.01), loss=ctc_loss)

transcribe = Transcribe(validation_dataset)
history = model.fit(train_dataset, epochs=2, validation_data=validation_dataset, callbacks=[transcribe], verbose=2)
result_errors = transcribe.errors
