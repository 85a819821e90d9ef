"""Write the words of recordings with an encoder and a decoder: own steps, own metrics, and a callback that decodes."""

import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(72)

PADDING, START, END = 0, 1, 2
LETTERS, LENGTH, WIDTH = 8, 6, 16

random = np.random.RandomState(0)
tones = random.normal(size=(LETTERS, 6))
texts = np.zeros((144, LENGTH), "int32")
for text in texts:
    size = random.randint(2, LENGTH - 1)
    text[: size + 2] = [START, *random.randint(3, LETTERS, size), END]
sounds = np.repeat(tones[texts], 4, axis=1) + random.normal(0.0, 0.1, (144, 4 * LENGTH, 6))
dataset = tf.data.Dataset.from_tensor_slices({"source": sounds.astype("float32"), "target": texts})
train_dataset, validation_dataset = dataset.take(120).batch(24), dataset.skip(120).batch(12)


class DecoderLayer(keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.self_attention = keras.layers.MultiHeadAttention(num_heads=2, key_dim=WIDTH // 2)
        self.attention = keras.layers.MultiHeadAttention(num_heads=2, key_dim=WIDTH // 2)
        self.norms = [keras.layers.LayerNormalization() for _ in range(2)]

    def call(self, encoded, target):
        target = self.norms[0](target + self.self_attention(target, target, use_causal_mask=True))
        return self.norms[1](target + self.attention(target, encoded))


class Transcriber(keras.Model):
    def __init__(self):
        super().__init__()
        self.loss_metric = keras.metrics.Mean(name="loss")
        self.shrink = keras.layers.Conv1D(WIDTH, 5, strides=2, padding="same", activation="relu")
        self.letters = keras.layers.Embedding(LETTERS, WIDTH)
        self.positions = keras.layers.Embedding(LENGTH, WIDTH)
        self.decoder = DecoderLayer()
        self.classify = keras.layers.Dense(LETTERS)

    @property
    def metrics(self):
        return [self.loss_metric]

    def call(self, inputs):
        source, target = inputs
        places = self.positions(keras.ops.arange(target.shape[1]))
        return self.classify(self.decoder(self.shrink(source), self.letters(target) + places))

    def loss_of(self, batch):
        so_far, following = batch["target"][:, :-1], batch["target"][:, 1:]
        outputs = self([batch["source"], so_far])
        mask = keras.ops.not_equal(following, PADDING)
        return self.compute_loss(None, keras.ops.one_hot(following, LETTERS), outputs, sample_weight=mask)

    def train_step(self, batch):
        with tf.GradientTape() as tape:
            loss = self.loss_of(batch)
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        self.loss_metric.update_state(loss)
        return {"loss": self.loss_metric.result()}

    def test_step(self, batch):
        self.loss_metric.update_state(self.loss_of(batch))
        return {"loss": self.loss_metric.result()}

    def generate(self, source):
        chosen = tf.fill((len(source), 1), START)
        encoded = self.shrink(source)
        for size in range(1, LENGTH):
            target = self.letters(chosen) + self.positions(keras.ops.arange(size))
            logits = self.classify(self.decoder(encoded, target))
            chosen = tf.concat([chosen, tf.argmax(logits[:, -1:], axis=-1, output_type=tf.int32)], axis=1)
        return chosen.numpy()


class ShowTexts(keras.callbacks.Callback):
    def __init__(self, batch):
        super().__init__()
        self.batch = batch
        self.texts = []

    def on_epoch_end(self, epoch, logs=None):
        self.texts.append(self.model.generate(self.batch["source"]))
        print("written:", self.texts[-1][0], "right:", self.batch["target"][0].numpy())


class WarmUp(keras.optimizers.schedules.LearningRateSchedule):
    def __init__(self, peak, steps):
        super().__init__()
        self.peak, self.steps = peak, steps

    def __call__(self, step):
        step = tf.cast(step, "float32")
        return self.peak * tf.minimum((step + 1.0) / self.steps, self.steps / (step + 1.0))


with strategy.scope():
    model = Transcriber()
    model([np.zeros((1, 4 * LENGTH, 6), "float32"), np.zeros((1, LENGTH - 1), "int32")])
    loss = keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.1)
    model.compile(optimizer=keras.optimizers.Adam(WarmUp(0.01, 5)), loss=loss)

show = ShowTexts(next(iter(validation_dataset)))
history = model.fit(train_dataset, epochs=2, validation_data=validation_dataset, callbacks=[show], verbose=2)
result_texts = show.texts
