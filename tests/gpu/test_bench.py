"""`make bench-gpu`: it skips with a reason if there is no GPU, and its small form measures on the CPU."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tfdist_cluster.paths import REPOSITORY

pytestmark = pytest.mark.trainer


def measured(*options: str, path: str) -> str:
    """Return the output of `python -m bench.gpu` as `make bench-gpu` runs it, with programs of `path`."""
    environ = os.environ | {"PYTHONPATH": "hack:hack/cluster:tests", "PATH": path}
    command = [sys.executable, "-m", "bench.gpu", *options]
    done = subprocess.run(command, cwd=REPOSITORY, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def test_without_a_gpu_it_skips_with_the_reason(tmp_path: Path) -> None:
    output = measured("--only", "recovery", "--output", str(tmp_path / "results"), path=str(tmp_path))
    assert output.startswith("skipped recovery: nvidia-smi finds no NVIDIA GPU on this machine")
    assert not (tmp_path / "results").exists()


@pytest.mark.long
@pytest.mark.parametrize("part", ["float32", "recovery"])
def test_the_small_form_measures_on_the_cpu(part: str, tmp_path: Path) -> None:
    options = ["--device", "cpu", "--small", "--rounds", "1", "--seconds", "0.5"]
    output = measured("--only", part, *options, "--output", str(tmp_path / "results"), path=os.environ["PATH"])
    assert ("one CPU" if part == "float32" else "in place") in output
    assert not (tmp_path / "results").exists(), "figures of a small form are of no use to others"
