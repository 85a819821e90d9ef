"""How long training waits for a checkpoint of 1 GB of a Keras script: `fit` with checkpoints in the background.

A process trains one wide layer with Adam and saves every few steps. The step loop waits for references to variables,
and the next step copies the buffers that it writes to. The steps during the write also share the processor with it.
Saving in the step loop would cost the whole write.
"""

import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

import numpy as np

from bench.results import Row, Target
from bench.trainer.processes import environ

WIDTH: Final = 9200
"""Units of a layer whose weights and two moments are 1.02 GB in float32."""
EVERY: Final = 6
SAVES: Final = 4
BEFORE: Final = 2
"""Steps at the begin that trace and allocate."""
LIMIT: Final = Target(value=0.3, text="<= 0.3 s")
_SAVED: Final = re.compile(r"checkpoint step=(\d+) .*blockedMillis=(\d+) writeSeconds=([\d.]+)")


def run(folder: Path) -> list[Row]:
    """Return the seconds of the step loop that a checkpoint costs, and those that it takes to write."""
    folder.mkdir()
    checkpoint = {"directory": str(folder / "checkpoints"), "everySteps": EVERY, "keep": 1}
    job = {"name": "job", "namespace": "default", "uid": "1", "strategy": "OneDevice", "role": "worker", "index": 0}
    settings = environ() | {"TFDIST_JOB": json.dumps(job | {"replicas": {"worker": 1}, "checkpoint": checkpoint})}
    settings |= {"TFDIST_REPORT_PORT": "0"}
    command = [sys.executable, "-m", "bench.trainer.saving"]
    completed = subprocess.run(
        command, env=settings, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True
    )
    ends = json.loads(next(line for line in completed.stdout.splitlines() if line.startswith("[")))
    saves = [(int(step), int(millis) / 1000, float(write)) for step, millis, write in _SAVED.findall(completed.stdout)]
    return [_row(np.diff(ends), [save for save in saves if save[0] < len(ends)][:SAVES])]  # the last follows training


def _row(seconds: Any, saves: list[tuple[int, float, float]]) -> Row:
    """Return the row of steps that took `seconds`, from the second on, and of the saves in between."""
    steps = {number: float(duration) for number, duration in enumerate(seconds, start=2)}
    usual = float(np.median([steps[step] for first, *_ in saves for step in (first - 1, first) if step > BEFORE]))
    blocked = [references + max(0.0, steps[first + 1] - usual) for first, references, _ in saves]
    overlapped = [sum(steps[step] - usual for step in range(first + 1, first + EVERY - 1)) for first, *_ in saves]
    note = (
        f"a step takes {usual:.2f} s; all steps during the write take {np.median(overlapped):.2f} s more; "
        f"references {max(references for _, references, _ in saves) * 1000:.0f} ms; {len(saves)} checkpoints of 1.02 GB"
    )
    title = "fit: what the step after a checkpoint of 1 GB takes longer, compared with the write in the background"
    return Row(title, float(np.median(blocked)), float(np.median([write for *_, write in saves])), "s", LIMIT, note)


def main() -> None:
    """Train, and print when each step had ended, in seconds."""
    import keras  # noqa: PLC0415  the process that starts this one needs none of it

    from tfdist_trainer import keras_import  # noqa: PLC0415

    keras_import.prepare()
    ends: list[float] = []

    def after_step(batch: int, logs: Any) -> None:  # noqa: ARG001  as Keras calls it
        ends.append(time.monotonic())

    model = keras.Sequential([keras.Input([WIDTH]), keras.layers.Dense(WIDTH, use_bias=False)])
    model.compile("adam", "mse")
    rows = np.zeros([1 + EVERY * (SAVES + 1), WIDTH], "float32")
    callbacks = [keras.callbacks.LambdaCallback(on_train_batch_end=after_step)]
    model.fit(rows, rows, batch_size=1, epochs=1, shuffle=False, verbose=0, callbacks=callbacks)
    print(json.dumps(ends), flush=True)


if __name__ == "__main__":
    main()
