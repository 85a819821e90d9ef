"""Trains a small Keras model on devices that `spec.runtime` has set up, in this process, and prints the results.

Argument: JSON with `runtime` (the settings), `kind` and `count` of the devices, `xla`, and `allocate_mib`.
"""

import json
import os
import subprocess
import sys
from typing import Any

import numpy as np

STEPS = 4
BATCH = 32


def main() -> None:
    arguments: dict[str, Any] = json.loads(sys.argv[1])
    before = used_memory() if arguments["kind"] == "GPU" else None
    from tfdist.contract import Role  # noqa: PLC0415
    from tfdist_trainer import runtime  # noqa: PLC0415

    settings = runtime.read(arguments["runtime"])
    runtime.prepare(os.environ, settings)
    import tensorflow as tf  # noqa: PLC0415

    from tfdist_trainer.strategies import devices  # noqa: PLC0415

    devices.configure(settings, Role.WORKER)
    kind, count = arguments["kind"], arguments["count"]
    logical_devices = tf.config.list_logical_devices(kind)
    assert len(logical_devices) >= count, f"TensorFlow sees {len(logical_devices)} of {count} devices of kind {kind}"
    names = [device.name for device in logical_devices[:count]]
    result = trained(names, xla=arguments["xla"]) | {"product": product(names[0]), "kernels": kernels(names[0])}
    reserved = None if before is None else used_memory() - before
    print(json.dumps(result | {"reserved": reserved, "allocated": allocated(names[0], arguments["allocate_mib"])}))


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


def used_memory() -> float:
    """Return which part of the memory of all GPUs is in use."""
    command = ["nvidia-smi", "--query-gpu=memory.used,memory.total", "--format=csv,noheader,nounits"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    used, total = zip(*(map(float, line.split(",")) for line in lines), strict=True)
    return float(sum(used) / sum(total))


def kernels(name: str) -> dict[str, float]:
    """Return the largest differences of what TensorFlow's kernels compute on a device from what Keras does."""
    import tensorflow as tf  # noqa: PLC0415

    from tfdist_trainer.keras_compat import keras  # noqa: PLC0415

    keras.config.set_dtype_policy("float32")  # the kernels compute in it, whatever the models of this process do
    with tf.device(name):
        optimizers = {"adam": keras.optimizers.Adam, "adamw": keras.optimizers.AdamW}
        return {kind: error_of_updates(make) for kind, make in optimizers.items()} | errors_of_normalization()


def error_of_updates(make: Any) -> float:
    """Return the largest difference of weights after 50 updates by an optimizer with the kernel and without."""
    import tensorflow as tf  # noqa: PLC0415

    from tfdist_trainer.keras_compat import keras  # noqa: PLC0415
    from tfdist_trainer.kernels import adam  # noqa: PLC0415

    random = np.random.default_rng(0)
    start = random.normal(size=(50, 5)).astype(np.float32)
    variables, optimizers = [keras.Variable(start) for _ in range(2)], [make(0.01) for _ in range(2)]
    for optimizer, variable in zip(optimizers, variables, strict=True):
        optimizer.build([variable])
    adam.fuse(optimizers[0])
    for _ in range(50):
        gradient = tf.constant(random.normal(size=start.shape), tf.float32)
        for optimizer, variable in zip(optimizers, variables, strict=True):
            optimizer.apply([gradient], [variable])
    assert np.abs(variables[0].numpy() - start).max() > 0.01, "the updates change the weights"
    return largest_difference(*variables)


def errors_of_normalization() -> dict[str, float]:
    """Return the largest differences of results, statistics and gradients of a layer with the kernel and without."""
    import tensorflow as tf  # noqa: PLC0415

    from tfdist_trainer.keras_compat import keras  # noqa: PLC0415
    from tfdist_trainer.kernels import batch_normalization  # noqa: PLC0415

    random = np.random.default_rng(1)
    images, weights = (tf.constant(random.normal(2.0, 3.0, (16, 8, 8, 4)), tf.float32) for _ in range(2))
    layers = [keras.layers.BatchNormalization() for _ in range(2)]
    models = [keras.Sequential([keras.Input((8, 8, 4)), layer]) for layer in layers]
    batch_normalization.fuse(models[0])
    kept, gradients = [], []
    for layer, model in zip(layers, models, strict=True):
        with tf.GradientTape() as tape:
            tape.watch(images)
            normalized = model(images, training=True)
            total = tf.reduce_sum(normalized * weights)
        kept.append([normalized, *layer.non_trainable_variables])
        gradients.append(tape.gradient(total, images))
    return {
        "batchNormalization": max(map(largest_difference, *kept)),
        "gradientOfBatchNormalization": largest_difference(*gradients),
    }


def largest_difference(one: Any, other: Any) -> float:
    """Return the largest difference of the elements of two tensors or variables."""
    return float(np.abs(np.asarray(one) - np.asarray(other)).max())


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
