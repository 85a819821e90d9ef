"""A job trains to the same result as processes of one machine and as pods."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
import yaml
from support.api import Json
from support.e2e import Cluster, example
from support.failing_jobs import JobNamespace

from tfdist_demo import data, manifests, on_this_machine

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

NAME: Final = "local-results"
STEPS: Final = 200
CLOSE: Final = 1e-3
"""Relative: threads add up floating-point numbers in another order, and 200 steps carry it on."""


def here(job: Json, folder: Path) -> Json:
    """Return the final evaluation of a job that runs as processes of this machine."""
    volume = folder / "volume"
    on_this_machine.fill(data.contents(), volume)
    (folder / "job.yaml").write_text(yaml.safe_dump(job))
    command = [sys.executable, "-m", "tfdist.cli", "run", "--local", "job.yaml"]
    command += ["--volume", f"{manifests.CLAIM}={volume}"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    status: Json = json.loads((folder / ".tfdist" / NAME / "status.json").read_text())
    final: Json = status["evaluation"]["final"]
    return final


def test_two_workers_and_their_evaluation_give_equal_metrics_locally_and_on_pods(
    cluster: Cluster, tmp_path: Path
) -> None:
    job = example(NAME, steps=STEPS, model="mlp")
    del job["spec"]["training"]["config"]["epochs"]
    cluster.delete_job(NAME)
    jobs = JobNamespace(cluster)
    jobs.start(job)
    status = jobs.ended(NAME, seconds=400)
    assert status["phase"] == "Succeeded", status["summary"]
    on_pods = status["evaluation"]["final"]
    cluster.delete_job(NAME)
    local = here(job, tmp_path)
    assert (local["step"], local["examples"]) == (on_pods["step"], on_pods["examples"]) == (STEPS, 10_000)
    assert local["metrics"] == pytest.approx(on_pods["metrics"], rel=CLOSE)
