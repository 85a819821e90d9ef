"""Scripts with `fit` of Keras on GPUs: two workers that share one train as one process does."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gpu.jobs import KINDS, TIMEOUT_SECONDS, environ, skip_without_gpus
from support.forked import Fork
from support.ports import free_ports

pytestmark = pytest.mark.trainer

SCRIPT = Path(__file__).parents[1] / "support/programs/device_fit.py"
START = Path(__file__).with_name("start_script.py")
LIMIT_MIB = 4096


def start(folder: Path, name: str, kind: str, more: dict[str, str]) -> Fork:
    script = [str(START), str(SCRIPT), str(folder / f"{name}.json"), kind, str(LIMIT_MIB)]
    return Fork(environ(kind) | more, folder / f"{name}.txt", script)


@KINDS
def test_fit_of_two_workers_on_one_device_is_that_of_one_process(kind: str, tmp_path: Path) -> None:
    skip_without_gpus(kind)
    # given two workers of a script, each with a part of the device's memory
    addresses = [f"127.0.0.1:{port}" for port in free_ports(2)]
    processes = {}
    for index in range(2):
        cluster = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
        processes[f"{index}"] = start(tmp_path, f"{index}", kind, {"TF_CONFIG": json.dumps(cluster)})
    # and the same script alone
    processes["alone"] = start(tmp_path, "alone", kind, {})
    # when they train
    for name, process in processes.items():
        assert process.wait(TIMEOUT_SECONDS) == 0, (tmp_path / f"{name}.txt").read_text()[-4000:]
    # then
    results: dict[str, dict[str, Any]] = {
        name: json.loads((tmp_path / f"{name}.json").read_text()) for name in processes
    }
    for result in results.values():
        assert all(f"device:{kind}:0" in device for device in result["devices"]), "no fallback to another device"
        assert result["history"]["loss"] == pytest.approx(results["alone"]["history"]["loss"], abs=1e-4)
        for ours, expected in zip(result["weights"], results["alone"]["weights"], strict=True):
            np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-4)
