"""What the engine costs `fit` of Keras 3 in one process, if it leaves everything to Keras.

Each measurement is a process of its own: functions of Keras that were replaced cannot be given back.
"""

import subprocess
import sys
import time
from typing import Any, Final

from bench.results import Row, Samples, Target
from bench.trainer.processes import environ

ROUNDS: Final = 5
EPOCHS: Final = 4
FIVE_PERCENT: Final = Target(ratio=1.05, text="<= 5 % more")


def run(data: str) -> list[Row]:
    """Return the time of an example with the engine and without, on the arrays of the file `data`."""
    samples = Samples()
    for number in range(ROUNDS):
        kinds = ("enabled", "plain") if number % 2 else ("plain", "enabled")
        samples.add({kind: _microseconds(kind, data) for kind in kinds})
    note = f"{samples.spread('enabled')} and {samples.spread('plain')} us"
    title = "fit of arrays: mlp, batch 128, 1 process: with the engine for several workers, compared with plain Keras"
    ours, peer = (samples.median(kind) for kind in ("enabled", "plain"))
    return [Row(title, ours, peer, "us an example", FIVE_PERCENT, note, samples.ratio("enabled", "plain"))]


def _microseconds(kind: str, data: str) -> float:
    command = [sys.executable, "-m", "bench.trainer.fit_alone", kind, data]
    completed = subprocess.run(command, env=environ(), stdout=subprocess.PIPE, text=True, check=True)
    return float(completed.stdout.splitlines()[-1])


def main(kind: str, data: str) -> None:
    """Print the microseconds of an example, without the first epoch, which traces the step."""
    # Here, as the process that starts this one needs none of them.
    import keras  # noqa: PLC0415
    import numpy as np  # noqa: PLC0415

    from bench.trainer import fits  # noqa: PLC0415
    from tfdist_trainer.keras import enable  # noqa: PLC0415

    if kind == "enabled":
        enable()
    with np.load(data) as arrays:
        images, labels = arrays["image"], arrays["label"]
    model = fits.compiled(keras)
    ends: list[float] = []

    def after_epoch(_epoch: int, _logs: Any) -> None:
        ends.append(time.monotonic())

    callbacks = [keras.callbacks.LambdaCallback(on_epoch_end=after_epoch)]
    model.fit(**fits.as_arrays(images, labels, 128), epochs=1 + EPOCHS, verbose=0, callbacks=callbacks)
    print((ends[-1] - ends[0]) / EPOCHS / len(images) * 1e6)


if __name__ == "__main__":
    main(*sys.argv[1:])
