"""However a script or its process ends: what it has trained is final if, and only if, it has ended with 0 by itself."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.forked import Fork
from support.polling import WAIT_SECONDS

from tfdist import contract_reports
from tfdist.contract_reports import TerminationMessage
from tfdist_trainer import script_end

SCRIPT = """
import os, signal, sys, threading, time
from pathlib import Path
from tfdist_trainer import script_end

def finish():
    threading.Thread(target=Path("final").touch).start()  # Python 3.12 starts no thread for a handler of atexit

def train():
    script_end.report_with(lambda reason, message: Path("message").write_text(f"{reason}: {message}"))
    script_end.when_succeeded(finish)

"""
IN_CHILD = """
import multiprocessing
def child():
    train()
    {end}
if __name__ == "__main__":
    process = multiprocessing.get_context("{method}").Process(target=child)
    process.start()
    process.join()
"""
THREAD = "train(); threading.Thread(target=lambda: ({}), daemon={}).start()"

SUCCEEDED = {
    "its last line": "train()",
    "sys.exit()": "train(); sys.exit()",
    "sys.exit(0)": "train(); sys.exit(0)",
    "sys.exit(False)": "train(); sys.exit(False)",
    "sys.exit(256), of which the kernel keeps 0": "train(); sys.exit(256)",
    "raise SystemExit": "train(); raise SystemExit",
    "quit()": "train(); quit()",
    "argparse's --help": "import argparse; train(); argparse.ArgumentParser().parse_args(['--help'])",
    "absl's main, which returns": "from absl import app; train(); app.run(lambda _: 0)",
    "asyncio": "import asyncio; train(); asyncio.run(asyncio.sleep(0))",
    "an exception that is caught": "train()\ntry: raise ValueError('x')\nexcept ValueError: pass",
    "an exception of another thread": THREAD.format("1 / 0", False),
    "sys.exit(3) of another thread": THREAD.format("sys.exit(3)", False),
    "a thread that trains longer": "threading.Thread(target=lambda: (time.sleep(0.3), train())).start()",
    "a thread that waits for ever, as a daemon": THREAD.format("time.sleep(1000)", True),
    "a pool of threads that is left": "import concurrent.futures as f; f.ThreadPoolExecutor(2).submit(train).result()",
    "a pool of threads that trains longer": (
        "import concurrent.futures as f; f.ThreadPoolExecutor(2).submit(lambda: (time.sleep(0.5), train()))"
    ),
    "an exception of a handler of atexit": "import atexit; train(); atexit.register(lambda: 1 / 0)",
    "a child process": IN_CHILD.format(method="fork", end="pass"),
    "sys.exit(0) of a child process": IN_CHILD.format(method="fork", end="sys.exit(0)"),
    "a child process that is spawned": IN_CHILD.format(method="spawn", end="pass"),
    "a pool of processes": (
        "import concurrent.futures as f, multiprocessing as m\n"
        "with f.ProcessPoolExecutor(1, m.get_context('fork')) as pool: pool.submit(train).result()"
    ),
}
FAILED = {
    "sys.exit(text)": ("train(); sys.exit('accuracy 0.64 is below 0.99')", 1, "Exit: accuracy 0.64 is below 0.99"),
    "sys.exit('')": ("train(); sys.exit('')", 1, "Exit: "),
    "sys.exit(0.0)": ("train(); sys.exit(0.0)", 1, "Exit: "),
    "sys.exit(True)": ("train(); sys.exit(True)", 1, "Exit: "),
    "sys.exit(3)": ("train(); sys.exit(3)", 3, "Exit: "),
    "sys.exit(-1)": ("train(); sys.exit(-1)", 255, "Exit: "),
    "raise SystemExit(text)": ("train(); raise SystemExit('no')", 1, "Exit: no"),
    "exit(2)": ("train(); exit(2)", 2, "Exit: "),
    "sys.exit(1) in finally": ("train()\ntry: 1 / 0\nfinally: sys.exit(1)", 1, "Exit: "),
    "an exception": ("train(); raise ValueError('x')", 1, "Bug: ValueError: x"),
    "an exception after sys.exit(0)": (
        "train()\ntry: sys.exit(0)\nfinally: raise ValueError('x')", 1, "Bug: ValueError: x"
    ),
    "an exception group": ("train(); raise ExceptionGroup('two', [ValueError('x')])", 1, "Bug: ExceptionGroup: two"),
    "an assertion": ("train(); assert False, 'below 0.99'", 1, "Bug: AssertionError: below 0.99"),
    "asyncio's cancellation": (
        "import asyncio; train(); raise asyncio.CancelledError('x')", 1, "Bug: CancelledError: x"
    ),
    "an exception that is no Exception": ("train(); raise type('End', (BaseException,), {})('x')", 1, "Bug: "),
    "argparse's error": ("import argparse; train(); argparse.ArgumentParser().parse_args(['-x'])", 2, "Exit: "),
    "absl's main, which returns 3": ("from absl import app; train(); app.run(lambda _: 3)", 3, "Exit: "),
    "an exception of absl's main": ("from absl import app; train(); app.run(lambda _: 1 / 0)", 1, "Bug: ZeroDivision"),
    "Ctrl-C": ("train(); os.kill(os.getpid(), signal.SIGINT); time.sleep(60)", -signal.SIGINT, ""),
    "os._exit(0)": ("train(); os._exit(0)", 0, ""),
    "os._exit(3)": ("train(); os._exit(3)", 3, ""),
    "os.abort()": ("train(); os.abort()", -signal.SIGABRT, ""),
    "SIGTERM": ("train(); os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM, ""),
    "SIGKILL": ("train(); os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL, ""),
    "another program in its place": (
        "train(); os.execv(sys.executable, [sys.executable, '-c', 'raise SystemExit(0)'])", 0, ""
    ),
    "an exception of a child process": (IN_CHILD.format(method="fork", end="1 / 0"), 0, ""),
    "sys.exit(text) of a child process": (IN_CHILD.format(method="spawn", end="sys.exit('no')"), 0, ""),
    "a child process that is killed": (
        IN_CHILD.format(method="fork", end="os.kill(os.getpid(), signal.SIGKILL)"), 0, ""
    ),
    "a storage that fails at last": (
        "from tfdist_trainer.errors import StorageError\n"
        "def finish(): raise StorageError('/c: Input/output error')\ntrain()",
        74, "Storage: /c: Input/output error",
    ),
    "a fault of our own at last": ("def finish(): raise KeyError('x')\ntrain()", 70, "Bug: KeyError: 'x'"),
}  # fmt: skip


def run(folder: Path, body: str, *command: str) -> "subprocess.CompletedProcess[str]":
    """Run a script as an image runs it: by `python train.py`, or by another command of the interpreter."""
    (folder / "train.py").write_text(SCRIPT + body)
    environ = os.environ | {"TFDIST_JOB": "{}", "TFDIST_TERMINATION_LOG": str(folder / "text")}
    arguments = [sys.executable, *(command or ("train.py",))]
    with (folder / "train.py").open() as text:
        return subprocess.run(
            arguments, cwd=folder, env=environ, stdin=text, capture_output=True, text=True, check=False, timeout=60
        )


@pytest.mark.parametrize("body", SUCCEEDED.values(), ids=SUCCEEDED)
def test_what_a_script_has_trained_is_final_when_it_ends_with_0(body: str, tmp_path: Path) -> None:
    done = run(tmp_path, body)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "final").exists(), done.stderr
    assert (tmp_path / "message").read_text() == "Completed: "


def test_a_script_that_has_closed_its_output_is_final(tmp_path: Path) -> None:
    closed = "from tfdist_trainer import log\ntrain(); os.close(1); os.close(2); log.event('saved'); log.error('x')"
    assert run(tmp_path, closed, "-u", "train.py").returncode == 0
    assert (tmp_path / "final").exists()


def test_the_controller_knows_the_reason_of_a_success() -> None:
    assert script_end.COMPLETED == contract_reports.COMPLETED


@pytest.mark.parametrize(("body", "status", "message"), FAILED.values(), ids=FAILED)
def test_nothing_is_final_when_a_script_ends_otherwise(body: str, status: int, message: str, tmp_path: Path) -> None:
    done = run(tmp_path, body)
    assert done.returncode == status, done.stderr
    assert not (tmp_path / "final").exists()
    written = tmp_path / "message"
    assert written.exists() == bool(message)
    assert not message or written.read_text().startswith(message)


@pytest.mark.parametrize(
    "command",
    [
        ("-u", "train.py", "--x"),
        ("links/link.py", "--x"),
        ("-um", "train", "--x"),
        ("-W", "ignore", "-m", "train", "--x"),
        ("-c", "import train", "--x"),
        ("-", "--x"),
        ("-u",),
    ],
)
def test_a_script_does_not_see_that_it_was_started_again(command: tuple[str, ...], tmp_path: Path) -> None:
    # given a script that notes what it sees of its interpreter
    note = """
main = sys.modules["__main__"]
file = getattr(main, "__file__", None)
seen = [sys.argv, sys.path[0], main.__name__, file, sys.flags.utf8_mode, sys.warnoptions, Path("helper.py").exists()]
Path(f"seen-{os.environ.get('TFDIST_KERAS_FIT')}").write_text(repr(seen))
"""
    (tmp_path / "links").mkdir()
    (tmp_path / "links/link.py").symlink_to("../train.py")  # Python imports what is next to the file, not to the link
    for switch in ("off", "on"):  # `off` leaves the interpreter alone
        os.environ["TFDIST_KERAS_FIT"] = switch
        try:
            done = run(tmp_path, note, *command)
        finally:
            del os.environ["TFDIST_KERAS_FIT"]
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "seen-on").read_text() == (tmp_path / "seen-off").read_text()


@pytest.mark.parametrize(
    "command",
    [("tfdist_example.py",), ("-m", "tfdist_example"), ("-c", "import multiprocessing, train"), ("-",), ("-u",)],
)
def test_every_script_of_an_interpreter_is_final(command: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "tfdist_example.py").write_text("import train")
    done = run(tmp_path, "train()", *command)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "final").exists()


def test_a_traceback_begins_with_the_line_of_the_script(tmp_path: Path) -> None:
    lines = run(tmp_path, "raise ValueError('x')").stderr.splitlines()
    assert lines[0].startswith("Traceback")
    assert f'File "{tmp_path}/train.py"' in lines[1]
    assert json.dumps(lines).count("File ") == 1


FIT = """
import sys
import keras, numpy as np
from tfdist_trainer import keras_import
keras_import.prepare()  # as the import of Keras does it in a process that is no fork
model = keras.Sequential([keras.Input([2]), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(np.ones((8, 2)), np.ones(8), batch_size=4, epochs=1, verbose=0)
"""


class Job:
    """A job of one worker with `checkpoint` and `training.export`, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def model(self) -> Path:
        return self.folder / "export/final/model.keras"

    @property
    def final(self) -> Path:
        return self.folder / "checkpoints/final.json"

    def message(self) -> TerminationMessage:
        return TerminationMessage.model_validate_json((self.folder / "message").read_bytes())

    def run(self, end: str, uid: str = "1") -> int:
        """Run a script that trains and then ends, and return its exit code."""
        (self.folder / "train.py").write_text(FIT + end)
        job = {"name": "job", "namespace": "default", "uid": uid, "strategy": "None", "attempt": 0}
        job |= {"role": "worker", "index": 0, "replicas": {"worker": 1}}
        job["checkpoint"] = {"directory": str(self.folder / "checkpoints"), "everySteps": 4}
        job["export"] = {"directory": str(self.folder / "export"), "formats": ["Keras"], "which": ["Final"]}
        environ = os.environ | {"TFDIST_JOB": json.dumps(job), "TFDIST_REPORT_PORT": "0", "CUDA_VISIBLE_DEVICES": ""}
        environ["TFDIST_TERMINATION_LOG"] = str(self.folder / "message")
        return self._ended(Fork(environ, self.folder / "output.txt", [str(self.folder / "train.py")], self.folder))

    def _ended(self, fork: Fork) -> int:
        try:
            return fork.wait(WAIT_SECONDS)
        finally:
            fork.send_signal(signal.SIGKILL)


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


@pytest.mark.parametrize("end", ["sys.exit('accuracy 0.64 is below 0.99')", "sys.exit(1)", "raise ValueError('no')"])
def test_a_model_that_its_script_rejects_replaces_no_other(job: Job, end: str) -> None:
    # given the model of an earlier job
    assert job.run("") == 0
    assert [each.which for each in job.message().exports] == ["Final"]
    former = job.model.read_bytes()
    assert job.final.exists()
    # when a script ends with an error after `fit`
    assert job.run("model.set_weights([w + 1 for w in model.get_weights()]); " + end, uid="2") == 1
    # then the model is still the former one, and the cause is the text
    assert job.model.read_bytes() == former
    assert not job.final.exists() or json.loads(job.final.read_text())["step"] == 2
    assert not job.message().exports
    assert job.message().message in {"accuracy 0.64 is below 0.99", "", "ValueError: no"}


def test_a_script_that_catches_the_failure_of_fit_does_not_end_with_0(job: Job) -> None:
    swallowed = """
try:
    model.fit(np.ones((8, 3)), np.ones(8), verbose=0)
except Exception:
    print("no matter")
"""
    assert job.run(swallowed) == 70
    assert (job.model.exists(), job.final.exists()) == (False, False)
    assert job.message().reason == "FitFailed"
    assert "the last call of fit failed: InvalidArgumentError" in job.message().message


def test_what_follows_a_failed_call_of_fit_counts(job: Job) -> None:
    retried = """
try:
    model.fit(np.ones((8, 3)), np.ones(8), verbose=0)
except Exception:
    model.fit(np.ones((8, 2)), np.ones(8), verbose=0)
"""
    assert job.run(retried) == 0
    assert (job.model.exists(), job.final.exists()) == (True, True)
