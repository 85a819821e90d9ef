"""Jobs that train on devices of this machine, in processes of their own."""

import functools
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.forked import Fork
from support.ports import free_ports

from tfdist_trainer.checkpoint import FinalRecord
from tfdist_trainer.strategies.devices import LOGICAL_CPUS_ENV

TIMEOUT_SECONDS = 300
KINDS = pytest.mark.parametrize("kind", [pytest.param("CPU", marks=pytest.mark.long), "GPU"])
"""On the CPU it shows that the test itself works; that training is right there, other tests show."""


@functools.cache
def number_of_gpus() -> int:
    """Return how many GPUs the driver of this machine reports."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return 0
    listed = subprocess.run([program, "--list-gpus"], capture_output=True, text=True, check=False)
    return len(listed.stdout.splitlines()) if listed.returncode == 0 else 0


def skip_without_gpus(kind: str, count: int = 1) -> None:
    """Skip the test if it needs GPUs and the machine has fewer."""
    if kind == "GPU" and number_of_gpus() < count:
        pytest.skip(
            f"needs {count} or more NVIDIA GPUs, and nvidia-smi finds {number_of_gpus() or 'none'} on this machine"
        )


def environ(kind: str, count: int = 1) -> dict[str, str]:
    """Return the environment of a process that uses `count` devices of a kind."""
    variables = {name: value for name, value in os.environ.items() if name not in {"TF_CONFIG", LOGICAL_CPUS_ENV}}
    if kind == "CPU":
        return variables | {"CUDA_VISIBLE_DEVICES": "-1", LOGICAL_CPUS_ENV: str(count)}
    if variables.get("CUDA_VISIBLE_DEVICES") == "-1":  # of the suites that run on CPUs only
        del variables["CUDA_VISIBLE_DEVICES"]
    return variables


class Job:
    """A job of some workers, each of which may be started more than once."""

    def __init__(self, folder: Path, kind: str, config: dict[str, Any], size: int = 1, **runtime: Any) -> None:
        folder.mkdir()
        self.folder = folder
        self.hold_file = folder / "hold"
        self._kind, self._config, self._runtime = kind, config, runtime
        self._addresses = [f"127.0.0.1:{port}" for port in free_ports(size)]
        self.workers: dict[int, Fork] = {}

    def start(self, attempt: int = 0, hold_at: str = "") -> None:
        """Start all workers; they stop at the places `hold_at` of `support.breakpoint_program`."""
        for index, _ in enumerate(self._addresses):
            holds = {"HOLD_AT": hold_at, "HOLD_FILE": str(self.hold_file)} if hold_at else {}
            self.workers[index] = Fork(self._environ(index, attempt) | holds, self.folder / f"out-{index}")

    def kill(self) -> None:
        """Kill all workers that run."""
        for worker in self.workers.values():
            if worker.poll() is None:
                os.kill(worker.pid, 9)
                worker.wait(TIMEOUT_SECONDS)

    def succeed(self) -> None:
        """Wait until all have ended, with success."""
        codes = [worker.wait(TIMEOUT_SECONDS) for worker in self.workers.values()]
        assert codes == [0] * len(codes), self.output

    @property
    def output(self) -> str:
        """Of all workers."""
        return "\n".join(path.read_text() for path in sorted(self.folder.glob("out-*")))

    def weights(self) -> dict[str, Any]:
        """Return the trained weights by name."""
        import tensorflow as tf  # noqa: PLC0415  a test that skips does without

        final = FinalRecord.model_validate_json((self.folder / "checkpoints/final.json").read_bytes())
        reader = tf.train.load_checkpoint(str(Path(final.path) / "variables"))
        names = [name for name in reader.get_variable_to_shape_map() if "_trainable_variables/" in name]
        return {name: reader.get_tensor(name) for name in names}

    def _environ(self, index: int, attempt: int) -> dict[str, str]:
        size = len(self._addresses)
        job = {
            "name": "test", "namespace": "default", "uid": "uid-1", "role": "worker", "index": index,
            "strategy": "MultiWorkerMirrored" if size > 1 else "OneDevice",
            "replicas": {"worker": size}, "attempt": attempt, "runtime": self._runtime,
            "training": {"program": "support.device_program:Images", "config": self._config},
            "checkpoint": {"directory": str(self.folder / "checkpoints"), "everySteps": 3},
        }  # fmt: skip
        cluster = {"cluster": {"worker": self._addresses}, "task": {"type": "worker", "index": index}}
        own = {"TFDIST_JOB": json.dumps(job), "TFDIST_REPORT_PORT": "0", "TMPDIR": str(self.folder)}
        return environ(self._kind) | own | ({"TF_CONFIG": json.dumps(cluster)} if size > 1 else {})


def assert_close(ours: dict[str, Any], expected: dict[str, Any], tolerance: float) -> None:
    """Check that two jobs have trained the same weights."""
    assert ours.keys() == expected.keys()
    assert ours
    for name, value in expected.items():
        np.testing.assert_allclose(ours[name], value, rtol=0, atol=tolerance, err_msg=name)
