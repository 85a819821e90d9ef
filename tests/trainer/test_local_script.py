"""`tfdist run --local train.py --workers 2`: an ordinary Keras script, without a manifest and without a line for it."""

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

pytestmark = pytest.mark.trainer

SECONDS: Final = 300
SCRIPT: Final = """
import sys

import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(1)
x = np.linspace(-1, 1, 64, dtype="float32")[:, None]
with strategy.scope():
    model = keras.Sequential([keras.Input([1]), keras.layers.Dense(1)])
    model.compile(optimizer="adam", loss="mse")
history = model.fit(x, 2 * x, epochs=int(sys.argv[1]), verbose=0)
print("workers", strategy.num_replicas_in_sync, "loss", history.history["loss"])
"""


def run(folder: Path, *arguments: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "tfdist.cli", "run", "--local", *arguments]
    done = subprocess.run(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=SECONDS
    )
    return done.returncode, done.stdout


def test_a_script_trains_on_two_workers(tmp_path: Path) -> None:
    # given
    (tmp_path / "My train.py").write_text(SCRIPT)
    # when
    code, output = run(tmp_path, "My train.py", "--workers", "2", "--", "3")
    # then
    assert code == 0, output
    logs = tmp_path / ".tfdist/my-train/logs"
    results = [
        [line for line in (logs / f"worker-{index}.log").read_text().splitlines() if "workers 2 loss" in line]
        for index in range(2)
    ]
    assert len(results[0]) == 1, output
    assert [line.partition("workers")[2] for line in results[0]] == [
        line.partition("workers")[2] for line in results[1]
    ]


def test_an_exception_of_the_script_ends_the_run_at_once_with_its_message(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("raise ValueError('no such column: price')\n")
    code, output = run(tmp_path, "train.py", "--workers", "2")
    assert code == 1
    assert "ValueError: no such column: price" in output
    assert output.count("Traceback") == 2, output  # of each worker once
