"""`spec.runtime` and `fit` on GPUs, and the same with devices of the CPU, which shows that the tests themselves work.

`make test-gpu` runs them on a machine with NVIDIA GPUs. Each case trains in a process of its own: TensorFlow sets up
its devices once.
"""

import functools
import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from gpu.jobs import environ, skip_without_gpus
from support import device_probe

pytestmark = pytest.mark.trainer

SMALL_MIB = 64
TIMEOUT_SECONDS = 300


@functools.cache
def probed(kind: str, count: int, runtime: str, *, xla: bool, mib: int) -> dict[str, Any]:
    """Return what a process reports that has trained with these settings; equal ones train once."""
    given = {"kind": kind, "count": count, "runtime": json.loads(runtime), "xla": xla, "allocate_mib": mib}
    command = [sys.executable, device_probe.__file__, json.dumps(given)]
    made = subprocess.run(
        command, env=environ(kind, count), capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS
    )
    assert made.returncode == 0, made.stderr[-4000:]
    result: dict[str, Any] = json.loads(made.stdout.splitlines()[-1])
    return result


def run(kind: str, count: int = 1, *, xla: bool = False, mib: int = SMALL_MIB, **runtime: Any) -> dict[str, Any]:
    """Train on `count` devices; skip the test if the machine has fewer GPUs."""
    skip_without_gpus(kind, count)
    result = probed(kind, count, json.dumps(runtime, sort_keys=True), xla=xla, mib=mib)
    assert len(result["used"]) == count
    assert all(f"device:{kind}:" in name for name in result["used"]), "no fallback to another device"
    return result


def assert_alike(one: dict[str, Any], other: dict[str, Any], tolerance: float) -> None:
    np.testing.assert_allclose(one["weights"], other["weights"], atol=tolerance)
    assert one["loss"] == pytest.approx(other["loss"], abs=tolerance)


KINDS = pytest.mark.parametrize("kind", [pytest.param("CPU", marks=pytest.mark.long), "GPU"])


@KINDS
def test_mirrored_over_several_devices_trains_as_one_device(kind: str) -> None:
    exact = {"tensorFloat32": False}
    assert_alike(run(kind, 2, **exact), run(kind, **exact), 1e-4)


@KINDS
def test_a_step_that_xla_compiles_computes_what_one_without_does(kind: str) -> None:
    exact = {"tensorFloat32": False}
    assert_alike(run(kind, xla=True, **exact), run(kind, **exact), 1e-4)


@KINDS
@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_mixed_precision_computes_in_it_and_stays_near_float32(kind: str, precision: str) -> None:
    mixed, full = run(kind, mixedPrecision=precision), run(kind, tensorFloat32=False)
    assert mixed["computes"][:-1] == [precision] * (len(mixed["computes"]) - 1)
    assert mixed["stores"] == ["float32"]
    assert mixed["loss"] == pytest.approx(full["loss"], rel=0.05)
    assert mixed["weights"] != full["weights"]


@KINDS
def test_tensor_float32_changes_products_of_gpus_that_have_it_only(kind: str) -> None:
    rounded, exact = run(kind)["product"], run(kind, tensorFloat32=False)["product"]
    assert exact < 1e-3
    if kind == "GPU":
        assert rounded > 10 * exact, "a GPU from Ampere on; older ones have no TensorFloat-32"
    else:
        assert rounded == exact


@KINDS
@pytest.mark.parametrize(
    ("limit", "mib"),
    [
        pytest.param({"gpuMemoryLimitMiB": 512}, 1 << 10, id="MiB"),
        pytest.param({"gpuMemoryFraction": 0.05}, 16 << 10, id="fraction"),  # a twentieth of a GPU of 300 GiB
    ],
)
def test_a_limit_of_gpu_memory_bounds_gpus_and_nothing_else(kind: str, limit: dict[str, Any], mib: int) -> None:
    assert run(kind, mib=mib if kind == "GPU" else 1 << 10, **limit)["allocated"] is (kind == "CPU")
    assert run(kind)["allocated"] is True


@pytest.mark.parametrize("kind", ["GPU"])
@pytest.mark.parametrize("grows", [True, False])
def test_a_gpu_is_reserved_as_needed_or_at_the_start(kind: str, grows: bool) -> None:
    reserved = run(kind, gpuMemoryGrowth=grows)["reserved"]
    assert (reserved > 0.7) is not grows


@KINDS
def test_kernels_compute_what_keras_does(kind: str) -> None:
    kernels = run(kind, tensorFloat32=False)["kernels"]
    assert kernels.keys() == {"adam", "adamw", "batchNormalization", "gradientOfBatchNormalization"}
    assert all(0 <= error < 1e-4 for error in kernels.values()), kernels
