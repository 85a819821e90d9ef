"""Decodes, resizes and augments images, one by one in the input pipeline.

All operations are stateless: equal seeds give equal images, whatever was read before.
"""

from typing import Final

import tensorflow as tf

Shape = tuple[int, int, int]
"""Height, width and channels."""

_AREA: Final = (0.08, 1.0)
_ASPECT: Final = (3 / 4, 4 / 3)
_ATTEMPTS: Final = 10
_PARALLEL: Final = 64
"""Images of a batch that are decoded at a time, if there are as many cores."""


def decode_image(content: tf.Tensor, channels: int) -> tf.Tensor:
    """Return the first frame of the image file `content`, uint8 [height, width, channels].

    Raises:
        tf.errors.InvalidArgumentError: it cannot be decoded, or converted to `channels`.
    """
    image = tf.io.decode_image(content, channels=channels, expand_animations=False)
    return tf.ensure_shape(image, [None, None, channels])


def sizes(contents: tf.Tensor, channels: int) -> tf.Tensor:
    """Return the shapes, int32 [batch, 3], of the image files `contents`, [batch], after decoding all; errors too."""
    return tf.map_fn(
        lambda content: tf.shape(decode_image(content, channels)),
        contents,
        fn_output_signature=tf.TensorSpec([3], tf.int32),
        parallel_iterations=_PARALLEL,
    )


def prepare(images: tf.Tensor, seeds: tf.Tensor | None, shape: Shape, augmentation: frozenset[str]) -> tf.Tensor:
    """Return `images`, files as strings [batch] or pixels [batch, *shape], as uint8 [batch, *shape].

    Args:
        images: the images.
        seeds: int64 [batch, 2], for `augmentation`.
        shape: the final shape.
        augmentation: the random changes; see the configuration of `image_classification`.

    Raises:
        tf.errors.InvalidArgumentError: a file cannot be decoded.
    """

    def prepare_one(parts: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        image, seed = parts
        if image.dtype == tf.string:
            image = decode_image(image, shape[2])
        if "RandomResizedCrop" in augmentation:
            image = resize(random_crop(image, seed), shape)
        else:
            image = crop_to_ratio(image, shape)
        if "RandomFlip" in augmentation:
            # A separate seed: with the seed of the crop, the flip would depend on the area.
            flip_seed = tf.random.experimental.stateless_fold_in(seed, 1)
            image = tf.image.stateless_random_flip_left_right(image, flip_seed)
        return tf.ensure_shape(image, shape)

    if seeds is None:
        seeds = tf.zeros([tf.shape(images)[0], 2], tf.int64)
    signature = tf.TensorSpec(shape, tf.uint8)
    return tf.map_fn(prepare_one, (images, seeds), fn_output_signature=signature, parallel_iterations=_PARALLEL)


def crop_to_ratio(image: tf.Tensor, shape: Shape) -> tf.Tensor:
    """Return the center of `image` that has the ratio of height and width of `shape`, resized to `shape`."""
    height, width = tf.shape(image)[0], tf.shape(image)[1]
    ratio = shape[0] / shape[1]
    rows = tf.clip_by_value(tf.cast(tf.round(tf.cast(width, tf.float64) * ratio), tf.int32), 1, height)
    columns = tf.clip_by_value(tf.cast(tf.round(tf.cast(height, tf.float64) / ratio), tf.int32), 1, width)
    top, left = (height - rows) // 2, (width - columns) // 2
    return resize(image[top : top + rows, left : left + columns], shape)


def random_crop(image: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Return a random rectangle of `image`: 8 to 100 % of the area, with a ratio of 3:4 to 4:3."""
    begin, size, _ = tf.image.stateless_sample_distorted_bounding_box(
        tf.shape(image),
        tf.zeros([1, 0, 4]),
        seed=seed,
        min_object_covered=0.0,
        aspect_ratio_range=_ASPECT,
        area_range=_AREA,
        max_attempts=_ATTEMPTS,
        use_image_if_no_bounding_boxes=True,
    )
    return tf.slice(image, begin, size)


def resize(image: tf.Tensor, shape: Shape) -> tf.Tensor:
    """Return `image` resized to `shape`, uint8. An image of this size is unchanged."""
    values = tf.image.resize(image, shape[:2], antialias=True)
    return tf.cast(tf.clip_by_value(tf.round(values), 0, 255), tf.uint8)
