"""The tutorial's ensemble on real pods: five seeds are trained by a sweep, and evaluated as one model."""

import os
import subprocess
import sys

import pytest
import yaml
from support.api import Json
from support.e2e import ROOT, Cluster, moved
from support.polling import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.long, pytest.mark.timeout(3600)]

NAME = "seeds"
SECONDS = 2400.0


@pytest.fixture
def best(cluster: Cluster) -> list[Json]:
    """The best trials of the sweep of the example, when it has ended."""
    manifest = yaml.safe_load((ROOT / "examples/sweep/seeds.yaml").read_text(encoding="utf-8"))
    cluster.kubectl.run("delete", "tfs", NAME, f"--namespace={cluster.namespace}", "--ignore-not-found")
    assert "created" in (output := cluster.apply(moved(manifest, cluster.namespace))), output

    def status() -> Json:
        return dict((cluster.kubectl.get("tfs", NAME, f"--namespace={cluster.namespace}") or {}).get("status", {}))

    wait_for(
        "the sweep to end",
        lambda: status().get("phase") in {"Succeeded", "Failed"},
        SECONDS,
        context=lambda: str(status()),
    )
    found: list[Json] = status()["best"]
    return found


def test_an_ensemble_of_five_seeds_is_better_than_its_best_member(cluster: Cluster, best: list[Json]) -> None:
    # given
    assert len(best) == 5
    assert [trial["value"] for trial in best] == sorted((trial["value"] for trial in best), reverse=True)
    cluster.delete_job("ensemble")
    # when
    options = ["--name", "ensemble", "--workers", "2", "--follow", "--namespace", cluster.namespace]
    command = [sys.executable, "-m", "tfdist.cli", "evaluate", "--ensemble", NAME, *options]
    environ = os.environ | {"KUBECONFIG": str(cluster.kubectl.kubeconfig)}
    ended = subprocess.run(command, env=environ, text=True, capture_output=True, timeout=SECONDS, check=False)
    # then
    assert ended.returncode == 0, ended.stdout + ended.stderr
    final = cluster.job("ensemble")["status"]["evaluation"]["final"]
    assert final["examples"] == 10_000
    assert final["metrics"]["accuracy"] > best[0]["value"]
