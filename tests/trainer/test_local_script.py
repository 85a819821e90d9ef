"""An ordinary Keras script on two local workers: without a manifest, and as `training.script` of one."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
import yaml
from support.local_runs import LocalRuns

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
DATA_FIRST: Final = """
import subprocess
import sys

import tensorflow as tf

tf.config.threading.set_inter_op_parallelism_threads(2)
numbers = tf.function(lambda: tf.linspace(-1.0, 1.0, 64))()  # an operation, before Keras is imported

import keras

# Only one process of a replica is a member of the gang.
subprocess.run([sys.executable, "-c", "import tensorflow as tf; tf.constant(1)"], check=True)
table = keras.layers.StringLookup()
table.adapt(["a", "b"])
scale = keras.layers.Normalization(axis=None)
scale.adapt(numbers)
data = tf.data.Dataset.from_tensor_slices((numbers[:, None], 2 * numbers[:, None])).batch(32).cache()
iterator = iter(data)
next(iterator)
if "alone" in sys.argv:
    strategy = tf.distribute.MirroredStrategy()
else:
    options = tf.distribute.experimental.CommunicationOptions(
        implementation=tf.distribute.experimental.CommunicationImplementation.RING
    )
    strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
keras.utils.set_random_seed(1)
with strategy.scope():
    model = keras.Sequential([keras.Input([1]), scale, keras.layers.Dense(1)])
    model.compile(optimizer="adam", loss="mse")
history = model.fit(data.map(lambda x, y: (x, y * tf.cast(table("a"), tf.float32))), epochs=3, verbose=0)
next(iterator)
print("workers", strategy.num_replicas_in_sync, "loss", history.history["loss"])
"""


def run(folder: Path, *arguments: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "tfdist.cli", "run", "--local", *arguments]
    done = subprocess.run(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=SECONDS
    )
    return done.returncode, done.stdout


@pytest.mark.long
def test_a_script_trains_on_two_workers(tmp_path: Path) -> None:
    # given
    (tmp_path / "My train.py").write_text(SCRIPT)
    # when
    code, output = run(tmp_path, "My train.py", "--workers", "2", "--", "3")
    # then
    assert code == 0, output
    assert "training succeeded after 6 steps" in output, "`fit` reports by itself"
    first, second = losses(tmp_path / ".tfdist/my-train/logs")
    assert (len(first), first) == (1, second), output


def test_a_script_of_a_config_map_trains_in_forks_of_the_launchers(tmp_path: Path) -> None:
    # given a script that imports a module and reads a file next to it
    files = {"train.py": "import rows\n" + SCRIPT, "rows.py": "open('rows.csv').close()", "rows.csv": ""}
    job = {
        "apiVersion": "tfdist.dev/v1",
        "kind": "TFDistJob",
        "metadata": {"name": "my-script"},
        "spec": {
            "worker": {"replicas": 2},
            "training": {"script": "train.py", "args": ["3"], "source": {"configMap": {"name": "my-code"}}},
        },
    }
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "my-code"}, "data": files}
    (tmp_path / "job.yaml").write_text(yaml.safe_dump_all([job, config_map]))
    # when
    code, output = run(tmp_path, "job.yaml", "--in-place")
    # then
    assert code == 0, output
    assert "training succeeded after 6 steps" in output, "the launcher has the reports too"
    first, second = losses(tmp_path / ".tfdist/my-script/logs")
    assert (len(first), first) == (1, second), output


def test_a_script_begins_with_its_data_and_creates_the_strategy_later(tmp_path: Path) -> None:
    # given
    (tmp_path / "train.py").write_text(DATA_FIRST)
    # when
    code, output = run(tmp_path, "train.py", "--workers", "2")
    # then
    assert code == 0, output
    assert "training succeeded after 6 steps" in output
    first, second = losses(tmp_path / ".tfdist/train/logs")
    assert (len(first), first) == (1, second), output


@pytest.mark.long
def test_a_script_that_begins_with_its_data_may_train_on_each_worker_alone(tmp_path: Path) -> None:
    # given a strategy of one process, whose devices must not be those of all workers
    (tmp_path / "train.py").write_text(DATA_FIRST)
    # when
    code, output = run(tmp_path, "train.py", "--workers", "2", "--", "alone")
    # then
    assert code == 0, output
    assert "trained-alone" in output
    assert "workers 1 loss" in output


def test_one_ctrl_c_stops_fit_between_two_calls_without_a_checkpoint(start_run: LocalRuns) -> None:
    # given two workers whose `fit` does not end within the grace period
    ready = "keras.callbacks.LambdaCallback(on_epoch_end=lambda *_: print('ready', flush=True))"
    program = SCRIPT.replace("epochs=int(sys.argv[1])", f"epochs=10**9, callbacks=[{ready}]")
    run = start_run(program)
    run.until_ready("worker-0", "worker-1")
    # when
    run.process.send_signal(signal.SIGINT)
    code, output = run.end()
    # then neither is killed at its end
    assert code == 130, output
    last = [run.log(f"worker-{index}").splitlines()[-1] for index in range(2)]
    assert all("stopped reason=SIGTERM" in line or "another worker has stopped" in line for line in last), output


def losses(logs: Path) -> list[list[str]]:
    """Return the losses that each worker has printed, one text for each run of `fit`."""
    texts = [(logs / f"worker-{index}.log").read_text() for index in range(2)]
    return [[line.partition("loss")[2] for line in text.splitlines() if "workers 2 loss" in line] for text in texts]


def test_an_exception_of_the_script_ends_the_run_at_once_with_its_message(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("raise ValueError('no such column: price')\n")
    code, output = run(tmp_path, "train.py", "--workers", "2")
    assert code == 1
    assert "ValueError: no such column: price" in output
    tracebacks = [output.count(f"worker-{index} | Traceback") for index in range(2)]  # one may stop the other
    assert max(tracebacks) == 1, output
