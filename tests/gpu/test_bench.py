"""`make bench-gpu`: it skips with a reason where there is no GPU, and its small form measures on the CPU."""

from pathlib import Path

import pytest
from bench.gpu import run

pytestmark = pytest.mark.trainer


def test_without_a_gpu_it_skips_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(run, "listed_gpus", list)
    assert run.main(["--only", "recovery", "--output", str(tmp_path / "results")]) == 0
    assert capsys.readouterr().out.startswith("skipped recovery: nvidia-smi finds no NVIDIA GPU on this machine")
    assert not (tmp_path / "results").exists()


@pytest.mark.long
@pytest.mark.parametrize("part", ["float32", "recovery"])
def test_the_small_form_measures_on_the_cpu(part: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    options = ["--device", "cpu", "--small", "--rounds", "1", "--seconds", "0.5"]
    assert run.main(["--only", part, *options, "--output", str(tmp_path / "results")]) == 0
    assert "one CPU" in capsys.readouterr().out if part == "float32" else "in place" in capsys.readouterr().out
    assert not (tmp_path / "results").exists(), "figures of a small form are of no use to others"
