"""Jobs on GPUs: killed and resumed, and two workers that share one."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gpu.jobs import KINDS, Job, assert_close, skip_without_gpus
from support.polling import wait_for

pytestmark = pytest.mark.trainer

EPOCHS = {"epochs": 3, "batchSizePerReplica": 32, "learningRate": 0.01}
REPEATABLE = {"deterministic": True, "tensorFloat32": False}
LIMIT_MIB = 4096


@contextlib.contextmanager
def job(folder: Path, kind: str, config: dict[str, Any], size: int = 1, **runtime: Any) -> Iterator[Job]:
    """A job whose processes are gone afterwards."""
    made = Job(folder, kind, config, size, **runtime)
    try:
        yield made
    finally:
        made.kill()


def log_has_devices(output: str, kind: str) -> bool:
    """Return whether each process has logged that it uses one device of the kind."""
    lines = [line for line in output.splitlines() if " devices CPU=" in line]
    return bool(lines) and all(('GPU="1 ' in line) is (kind == "GPU") for line in lines)


@KINDS
def test_a_killed_training_resumes_and_ends_with_the_weights_of_one_left_alone(kind: str, tmp_path: Path) -> None:
    skip_without_gpus(kind)
    # given a training that is left alone, and one that is killed while it writes its second checkpoint
    with job(tmp_path / "alone", kind, EPOCHS, **REPEATABLE) as alone:
        alone.start()
        alone.succeed()
    with job(tmp_path / "killed", kind, EPOCHS, **REPEATABLE) as killed:
        killed.start(hold_at="written,written")
        wait_for("the first checkpoint", killed.hold_file.exists, context=lambda: killed.output)
        killed.hold_file.unlink()
        wait_for("the variables of the second", killed.hold_file.exists, context=lambda: killed.output)
        killed.kill()
        # when it is started again
        killed.start(attempt=1)
        killed.succeed()
    # then
    assert "restored step=3" in killed.output
    assert log_has_devices(killed.output, kind)
    assert_close(killed.weights(), alone.weights(), 1e-5)


@KINDS
def test_two_workers_with_limits_of_memory_share_a_device(kind: str, tmp_path: Path) -> None:
    skip_without_gpus(kind)
    exact = {"tensorFloat32": False, "gpuMemoryLimitMiB": LIMIT_MIB}
    alike = EPOCHS | {"perReplica": False, "shuffleBuffer": 0}
    with job(tmp_path / "one", kind, alike | {"batchSizePerReplica": 64}, **exact) as one:
        one.start()
        one.succeed()
    # NCCL has no two members on one GPU.
    with job(tmp_path / "two", kind, alike, size=2, collective="Ring", **exact) as two:
        two.start()
        two.succeed()
    assert log_has_devices(two.output, kind)
    assert_close(two.weights(), one.weights(), 1e-4)
