"""Sort texts of files in folders: the data set reads them, splits them into words, and weighs these by TF-IDF."""

import tempfile
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(69)

random = np.random.RandomState(0)
vocabularies = {"good": ["fine", "great", "lovely", "the", "film"], "poor": ["dull", "bad", "long", "the", "film"]}
folder = Path(tempfile.mkdtemp())
for kind, vocabulary in vocabularies.items():
    (folder / kind).mkdir()
    for number in range(40):
        text = " ".join(random.choice(vocabulary, random.randint(3, 9)))
        (folder / kind / f"{number}.txt").write_text(f"{text}<br />The End.")


@keras.saving.register_keras_serializable(package="texts")
def standardize(texts):
    texts = tf.strings.regex_replace(tf.strings.lower(texts), "<br />", " ")
    return tf.strings.regex_replace(texts, "[.]", "")


raw_train, raw_validation = keras.utils.text_dataset_from_directory(
    folder, batch_size=10, validation_split=0.25, seed=1, subset="both", verbose=False
)
vectorize = keras.layers.TextVectorization(
    max_tokens=30, ngrams=2, output_mode="tf_idf", standardize=standardize, pad_to_max_tokens=True
)
vectorize.adapt(raw_train.map(lambda texts, _: texts))
train = raw_train.map(lambda texts, labels: (vectorize(texts), labels))
validation = raw_validation.map(lambda texts, labels: (vectorize(texts), labels))

strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    inputs = keras.Input((30,))
    x = keras.layers.Dense(8, activation="relu")(inputs)
    model = keras.Model(inputs, keras.layers.Dense(1, activation="sigmoid")(x))
    model.compile(optimizer=keras.optimizers.Adam(0.01), loss="binary_crossentropy", metrics=["accuracy"])

history = model.fit(train, epochs=3, validation_data=validation, verbose=2)
result_texts = model.predict(vectorize(tf.constant(["a great film", "a dull long film"])), verbose=0)
