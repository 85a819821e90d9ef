"""Run a user's script unmodified, and save what it trained: `run_script.py [OPTIONS] SCRIPT OUT.npz`.

A script of a guide returns nothing. Its results are in its global variables: the `History` objects of `fit`, the
models, and the variables that are called `result...`, `scores` or `predictions`.
"""

import argparse
import os
import runpy
import signal
import sys
import time
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Arrays = dict[str, npt.NDArray[Any]]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--enable", action="store_true", help="install the engine before the script starts")
    parser.add_argument("--default-strategy", action="store_true", help="train without distribution")
    parser.add_argument("--job", action="store_true", help="prepare Keras as for the script of a job")
    parser.add_argument("--kill-after", metavar="FOLDER", type=Path, help="SIGKILL itself when a checkpoint is there")
    parser.add_argument("script", type=Path)
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    if arguments.enable:
        # Here, as only the engine's tests need the package.
        from tfdist_trainer import keras as engine  # noqa: PLC0415
        from tfdist_trainer.upstream import eager_context, strategy_worker  # noqa: PLC0415

        engine.enable()
        # As in the worker of a job, whose script may begin with its data.
        eager_context.before_start(strategy_worker.connect)
    if arguments.job:
        from tfdist_trainer import keras_import  # noqa: PLC0415  only in a job

        keras_import.prepare()  # as the imports of Keras and TensorFlow do it in a process that is no fork
        keras_import.prepare_first_operation()
    if arguments.kill_after:
        kill_after_checkpoint(arguments.kill_after)
    if arguments.default_strategy:
        replace_strategy()
    script = arguments.script.resolve()
    # As `python script.py` does it.
    sys.argv, sys.path[0] = [str(script)], str(script.parent)
    save(collect(runpy.run_path(str(script), run_name="__main__")), arguments.out)


def kill_after_checkpoint(folder: Path) -> None:
    """Make this process kill itself at the end of the first batch when there is a checkpoint in a folder.

    Where Keras runs several batches in one call, it is the end of the last one.
    """
    import keras  # noqa: PLC0415  only in a job

    callbacks = keras.callbacks.CallbackList
    original = callbacks.on_train_batch_end

    def on_train_batch_end(self: Any, batch: int, logs: Any = None) -> None:
        original(self, batch, logs)
        # The chief writes in the background, and waits for this worker at its next step.
        for _ in range(20):
            if any(folder.glob("checkpoint-*")):
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(0.02)

    # Not one more callback, which would change how many batches run in one call.
    callbacks.on_train_batch_end = on_train_batch_end


def replace_strategy() -> None:
    """Give the script TensorFlow's default strategy: what Keras does by itself is then the reference."""
    import tensorflow as tf  # noqa: PLC0415  after the engine, which may be the first to import it

    class Undistributed:
        """A class, as Keras asks whether a strategy is an instance of it."""

        def __new__(cls) -> Any:
            return tf.distribute.get_strategy()

    tf.distribute.MultiWorkerMirroredStrategy = Undistributed


def collect(variables: Mapping[str, Any]) -> Arrays:
    """Return the arrays of all results in the global variables of a script, by paths such as `history/loss`."""
    arrays: Arrays = {}
    for name, value in variables.items():
        for path, array in _leaves(name, _result(name, value)):
            arrays[path] = array
    return arrays


def save(arrays: Arrays, path: Path) -> None:
    """Write the file so that it is there whole or not at all: a test reads it after the end of another process."""
    partial = path.with_name(f"partial-{path.name}")
    np.savez(partial, allow_pickle=False, **arrays)
    partial.rename(path)


def _result(name: str, value: Any) -> Any:
    """Return what is compared of a variable, or None."""
    # The script has imported it; a runner that imported it first would hide that a script did not.
    keras = sys.modules["keras"]
    if isinstance(value, keras.callbacks.History):
        return value.history
    if isinstance(value, keras.Model):
        return dict(enumerate(value.get_weights()))
    if name == "scores" and isinstance(value, list) and any(isinstance(each, dict) for each in value):
        # Keras before 3.14 returns the metrics of a model's own `test_step` nested.
        return [float(each) for each in keras.tree.flatten(value)]
    return value if name.startswith("result") or name in {"scores", "predictions"} else None


def _leaves(path: str, value: Any) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    """Yield the arrays inside of dictionaries; a list is one array if its elements have one shape."""
    if value is None:
        return
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from _leaves(f"{path}/{key}", each)
        return
    if isinstance(value, (list, tuple)) and len({np.shape(each) for each in value}) > 1:
        yield from _leaves(path, dict(enumerate(value)))
        return
    yield path, np.asarray(value)


def _run_and_exit() -> None:
    """Leave without the interpreter's end: after a failed collective it aborts and hides the exception."""
    code = 0
    try:
        main()
    except BaseException:  # also SystemExit of a script
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    if "--job" in sys.argv:
        main()  # the job's own end of a script saves and reports
    else:
        _run_and_exit()
