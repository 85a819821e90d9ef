"""A worker that runs tests of Keras' own under several workers: `worker.py DONE OUT FOLDER TEST...`.

A TEST is a file in `keras/src`, or a part of one such as `trainers/trainer_test.py::TestTrainer`. DONE is a file with
the names of tests that are not repeated, one a line. OUT gets a line of JSON when a test starts and when it has ended.
The workers share FOLDER, which has the temporary folders of the tests.

The process ends at the first test that fails: its collectives may be left half done, and the next test would wait for
them.
"""

import importlib.util
import json
import os
import sys
import types
from collections.abc import Generator
from pathlib import Path
from typing import Any

import keras
import pytest
import tensorflow as tf
from keras.src.testing import TestCase, test_utils

from tfdist_trainer import keras as engine


def main() -> int:
    done, out, folder = map(Path, sys.argv[1:4])
    add_absent_modules()
    engine.enable()
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    have_tests_run_in_scope(strategy, folder)
    report = Report(strategy, set(done.read_text().splitlines()), out)
    root = Path(keras.__file__).parent / "src"
    options = ["-x", "-p", "no:cacheprovider", "-W", "ignore", "-c", os.devnull, f"--rootdir={root}", "--tb=short"]
    code = pytest.main([*options, *(f"{root / test}" for test in sys.argv[4:])], plugins=[report])
    return 0 if code == pytest.ExitCode.NO_TESTS_COLLECTED else int(code)  # all are done


def add_absent_modules() -> None:
    """Let Keras' test files be imported without JAX, which they import at their head and use in a few tests."""
    if importlib.util.find_spec("jax") is None:
        sys.modules["jax"] = types.ModuleType("jax")


def have_tests_run_in_scope(strategy: Any, folder: Path) -> None:
    """Enter the scope of `strategy` for each test, and have the workers share its temporary folders."""
    set_up = TestCase.setUp

    def set_up_in_scope(self: Any) -> None:
        set_up(self)  # clears the session, and with it a scope that was entered before
        keras.utils.set_random_seed(1)  # all workers draw the same arrays, as they would read the same files
        scope = strategy.scope()
        scope.__enter__()
        self.addCleanup(leave, scope)

    def leave(scope: Any) -> None:
        scope.__exit__(None, None, None)

    def temporary_folder(self: Any) -> str:
        self.folders = getattr(self, "folders", 0) + 1
        path = folder / f"{type(self).__name__}-{self._testMethodName}-{self.folders}"
        path.mkdir(parents=True, exist_ok=True)
        return str(path)

    # Without a seed it draws other data on each worker, which the engine reports.
    test_utils.get_test_data.__defaults__ = (1,)
    TestCase.setUp = set_up_in_scope
    TestCase.get_temp_dir = temporary_folder


class Report:
    """Leaves out what is done, and writes how each test has ended and whether it has used the strategy."""

    def __init__(self, strategy: Any, done: set[str], out: Path) -> None:
        self._done, self._out = done, out
        self._replicas = strategy.num_replicas_in_sync
        self._calls = 0
        run = strategy.run

        def counted(*args: Any, **kwargs: Any) -> Any:
            self._calls += 1
            return run(*args, **kwargs)

        strategy.run = counted

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if item.nodeid not in self._done]

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._calls = 0
        self._write(name=nodeid, outcome="started")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if call.excinfo is not None and call.excinfo.errisinstance(ModuleNotFoundError):
            report.outcome = "skipped"
            report.longrepr = (str(item.path), 0, str(call.excinfo.value))
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call" and report.passed:
            return
        text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr or "")
        replicas = self._replicas if self._calls else 1
        self._write(name=report.nodeid, outcome=report.outcome, text=text[-8000:], replicas=replicas)

    def _write(self, **line: Any) -> None:
        with self._out.open("a") as file:
            file.write(json.dumps(line) + "\n")


def _run_and_exit() -> None:
    """Leave without the interpreter's end, which waits for the other workers after a failed collective."""
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    _run_and_exit()
