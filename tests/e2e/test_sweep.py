"""Early stopping of the trials of a sweep on real pods, compared with trials that all train to their end."""

from pathlib import Path

import pytest
from support import programs
from support.api import Json
from support.e2e import Cluster, example
from support.polling import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.long, pytest.mark.timeout(3600)]

TRIALS = 12
STEPS = 1800
PACE_SECONDS = 0.15
"""Of a step: results reach the sweep about fifteen seconds after a checkpoint."""
SOURCE = Path(programs.__path__[0]) / "paced.py"
SECONDS = 2400.0


def sweep(name: str, pace: float, **spec: object) -> Json:
    """Return a sweep over the learning rate of a small network on Fashion-MNIST."""
    job = example(name, model="mlp", steps=STEPS, seed=1, optimizer={"decay": "Cosine", "decaySteps": STEPS})
    config = {key: value for key, value in job["spec"]["training"]["config"].items() if key != "epochs"}
    del config["learningRate"]
    job["spec"] |= {
        "worker": {"replicas": 1, "env": [{"name": "PACE_SECONDS", "value": str(pace)}]},
        "training": {"program": "paced:Paced", "source": {"configMap": {"name": "paced"}}, "config": config},
        "evaluation": {"mode": "Continuous", "metric": "accuracy"},
        "resources": {"requests": {"cpu": "100m", "memory": "300Mi"}},
    }
    job["spec"]["checkpoint"]["everySteps"] = 100
    fields = {
        "parameters": [{"name": "learningRate", "range": {"min": 0.00001, "max": 1, "scale": "Log"}}],
        "search": {"trials": TRIALS, "seed": 3},
        "cleanTrials": "None",
        "template": {"spec": job["spec"]},
    }
    metadata = {"name": name, "namespace": job["metadata"]["namespace"]}
    return {
        "apiVersion": "tfdist.dev/v1alpha1",
        "kind": "TFDistSweep",
        "metadata": metadata,
        "spec": fields | spec,
    }


def ended(cluster: Cluster, manifest: Json) -> tuple[Json, int]:
    """Run a sweep to its end; return its status, and the steps that all trials have trained."""
    name = manifest["metadata"]["name"]
    cluster.kubectl.run("delete", "tfs", name, f"--namespace={cluster.namespace}", "--ignore-not-found")
    assert "created" in (output := cluster.apply(manifest)), output

    def status() -> Json:
        found = cluster.kubectl.get("tfs", name, f"--namespace={cluster.namespace}")
        return dict(found.get("status", {})) if found else {}

    wait_for(
        f"the end of {name}",
        lambda: status().get("phase") in {"Succeeded", "Failed"},
        SECONDS,
        context=lambda: str(status()),
    )
    assert status()["phase"] == "Succeeded", status()
    jobs = [cluster.job(f"{name}-{trial}") for trial in range(TRIALS)]
    return status(), sum(job["status"]["progress"]["step"] for job in jobs)


def test_asha_finds_a_model_within_half_a_percent_of_the_best_by_a_third_of_the_steps(cluster: Cluster) -> None:
    """Given the best of twelve trials that train to their end; then ASHA finds one as good by a third of the steps."""
    metadata = {"name": "paced", "namespace": cluster.namespace}
    cluster.apply(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"paced.py": SOURCE.read_text()}}
    )
    whole, steps = ended(cluster, sweep("whole", 0.0, parallelism=2))
    assert steps == TRIALS * STEPS
    stopping = {"method": "Asha", "minSteps": 200, "reduction": 4}
    early, fewer = ended(cluster, sweep("early", PACE_SECONDS, parallelism=3, earlyStopping=stopping))
    print(f"best of all {whole['best'][0]}, with early stopping {early['best'][0]}; {fewer} of {steps} steps")
    assert early["best"][0]["value"] >= whole["best"][0]["value"] - 0.005
    assert fewer <= steps / 3
    for name in ("whole", "early"):
        cluster.kubectl.run("delete", "tfs", name, f"--namespace={cluster.namespace}")
