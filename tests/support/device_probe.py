"""Trains a small Keras model on devices that `spec.runtime` has set up, in this process, and prints the results.

Argument: JSON with `runtime` (the settings), `kind` and `count` of the devices, `xla`, and `allocate_mib`.
"""

import json
import os
import sys
from typing import Any

import numpy as np

STEPS = 4
BATCH = 32


def main() -> None:
    given: dict[str, Any] = json.loads(sys.argv[1])
    from tfdist.contract import Role  # noqa: PLC0415
    from tfdist_trainer import runtime  # noqa: PLC0415

    settings = runtime.read(given["runtime"])
    runtime.prepare(os.environ, settings)
    import tensorflow as tf  # noqa: PLC0415

    from tfdist_trainer.strategies import devices  # noqa: PLC0415

    devices.configure(settings, Role.WORKER)
    kind, count = given["kind"], given["count"]
    found = tf.config.list_logical_devices(kind)
    assert len(found) >= count, f"TensorFlow sees {len(found)} of {count} devices of kind {kind}"
    names = [device.name for device in found[:count]]
    result = trained(names, xla=given["xla"]) | {"product": product(names[0])}
    print(json.dumps(result | {"allocated": allocated(names[0], given["allocate_mib"])}))


def trained(names: list[str], *, xla: bool) -> dict[str, Any]:
    """Return loss, weights and data types after `STEPS` steps of `fit` on these devices."""
    import tensorflow as tf  # noqa: PLC0415

    from tfdist_trainer.keras_compat import keras  # noqa: PLC0415

    random = np.random.default_rng(7)
    inputs, labels = random.normal(size=(STEPS * BATCH, 8, 8, 3)), random.integers(0, 4, STEPS * BATCH)
    keras.utils.set_random_seed(7)
    strategy = tf.distribute.MirroredStrategy(names) if len(names) > 1 else tf.distribute.OneDeviceStrategy(names[0])
    with strategy.scope():
        layers = keras.layers
        body = [layers.Conv2D(4, 3, activation="relu"), layers.BatchNormalization(synchronized=True), layers.Flatten()]
        model = keras.Sequential(
            [keras.Input((8, 8, 3)), *body, layers.Dense(4), layers.Activation("linear", dtype="float32")]
        )
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.SGD(0.1), loss, jit_compile=xla)
    history = model.fit(inputs.astype("float32"), labels, batch_size=BATCH, shuffle=False, verbose=0)
    return {
        "loss": history.history["loss"][-1],
        "weights": np.concatenate([np.ravel(weight) for weight in model.get_weights()]).tolist(),
        "computes": [layer.compute_dtype for layer in model.layers],
        "stores": sorted({str(np.asarray(weight).dtype) for weight in model.get_weights()}),
        "used": sorted({device for weight in model.trainable_variables for device in devices_of(weight)}),
    }


def devices_of(weight: Any) -> list[str]:
    """Return the devices that a variable of Keras is on."""
    value = weight.value
    return [each.device for each in getattr(value, "values", (value,))]


def product(name: str) -> float:
    """Return the largest error of a product of float32 matrices on a device, compared with float64."""
    import tensorflow as tf  # noqa: PLC0415

    left, right = np.random.default_rng(3).normal(size=(2, 256, 256))
    with tf.device(name):
        computed = tf.linalg.matmul(tf.constant(left, tf.float32), tf.constant(right, tf.float32)).numpy()
    return float(np.abs(computed - left @ right).max())


def allocated(name: str, mib: int) -> bool:
    """Return whether a device has so much memory for one tensor."""
    import tensorflow as tf  # noqa: PLC0415

    try:
        with tf.device(name):
            tf.zeros([mib, 1 << 20], tf.int8)
    except tf.errors.ResourceExhaustedError:
        return False
    return True


if __name__ == "__main__":
    main()
