"""Mix pairs of images and their labels in the input pipeline: blends of two, and patches of one in another."""

import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(54)

SIZE = 10
CLASSES = 3
BATCH_SIZE = 32

random = np.random.RandomState(0)
numbers = random.randint(0, CLASSES, 160)
images = random.uniform(0.0, 0.5, (160, SIZE, SIZE, 1)).astype("float32")
for image, number in zip(images, numbers, strict=True):
    image[:, 3 * number : 3 * number + 3] += 0.5
labels = keras.utils.to_categorical(numbers, CLASSES).astype("float32")


def shuffled(seed):
    dataset = tf.data.Dataset.from_tensor_slices((images[:128], labels[:128]))
    return dataset.shuffle(128, seed=seed).batch(BATCH_SIZE)


def mix_up(first, second):
    (images_one, labels_one), (images_two, labels_two) = first, second
    # A quotient of two gamma variables has a beta distribution.
    one, two = (tf.random.gamma((tf.shape(images_one)[0],), 0.4) for _ in range(2))
    share = (one + 1e-6) / (one + two + 2e-6)
    for_images, for_labels = share[:, None, None, None], share[:, None]
    return (
        images_one * for_images + images_two * (1.0 - for_images),
        labels_one * for_labels + labels_two * (1.0 - for_labels),
    )


def cut_mix(first, second):
    (images_one, labels_one), (images_two, labels_two) = first, second
    corner = tf.random.uniform((2,), 0, SIZE - 4, dtype=tf.int32)
    rows, columns = tf.meshgrid(tf.range(SIZE), tf.range(SIZE), indexing="ij")
    inside = (abs(rows - corner[0] - 2) < 2) & (abs(columns - corner[1] - 2) < 2)
    mask = tf.cast(inside, tf.float32)
    share = tf.reduce_mean(mask)
    mask = mask[None, :, :, None]
    return images_one * (1.0 - mask) + images_two * mask, labels_one * (1.0 - share) + labels_two * share


validation_dataset = tf.data.Dataset.from_tensor_slices((images[128:], labels[128:])).batch(BATCH_SIZE)

strategy = tf.distribute.MultiWorkerMirroredStrategy()


def train(mix):
    with strategy.scope():
        model = keras.Sequential(
            [
                keras.Input((SIZE, SIZE, 1)),
                keras.layers.Conv2D(8, 3, activation="relu"),
                keras.layers.GlobalMaxPooling2D(),
                keras.layers.Dense(CLASSES),
            ]
        )
        loss = keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.1)
        model.compile(keras.optimizers.Adam(0.01), loss, metrics=["accuracy"])
    dataset = tf.data.Dataset.zip((shuffled(1), shuffled(2))).map(mix).prefetch(tf.data.AUTOTUNE)
    return model, model.fit(dataset, epochs=2, validation_data=validation_dataset, verbose=2)


blended_model, blended_history = train(mix_up)
patched_model, patched_history = train(cut_mix)
