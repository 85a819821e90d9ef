"""Katib Experiments whose trials are TFJobs, after the kinds of its examples: random, grid and median-stop."""

from copy import deepcopy
from typing import Any, Final

from support.tfjobs import replica

Json = dict[str, Any]

PARAMETERS: Final[list[Json]] = [
    {"name": "lr", "parameterType": "double", "feasibleSpace": {"min": "0.01", "max": "0.05"}},
    {"name": "batch-size", "parameterType": "int", "feasibleSpace": {"min": "32", "max": "128"}},
]
TRIAL_PARAMETERS: Final[list[Json]] = [
    {"name": "learningRate", "description": "Learning rate", "reference": "lr"},
    {"name": "batchSize", "description": "Examples of a step", "reference": "batch-size"},
]
ARGUMENTS: Final = ["--lr=${trialParameters.learningRate}", "--batch=${trialParameters.batchSize}"]


def trial_spec(types: Json | None = None) -> Json:
    """Return a TFJob with two workers that take two parameters as arguments, or with other replica types."""
    worker = replica(2, restart_policy="OnFailure", command=["python", "train.py"], args=ARGUMENTS)
    return {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "spec": {"tfReplicaSpecs": types or {"Worker": worker}}}


def experiment(algorithm: str = "random", template: Json | None = None, **spec: Any) -> Json:
    """Return an Experiment.

    Args:
        algorithm: of the search.
        template: fields of the template of the trials to replace.
        spec: fields of the specification to replace; None removes a field.
    """
    fields: Json = {
        "objective": {"type": "maximize", "goal": 0.99, "objectiveMetricName": "accuracy"},
        "algorithm": {"algorithmName": algorithm},
        "parallelTrialCount": 3,
        "maxTrialCount": 12,
        "maxFailedTrialCount": 2,
        "parameters": PARAMETERS,
        "trialTemplate": {
            "primaryContainerName": "tensorflow",
            "trialParameters": TRIAL_PARAMETERS,
            "trialSpec": trial_spec(),
        }
        | (template or {}),
    } | spec
    return deepcopy(
        {
            "apiVersion": "kubeflow.org/v1beta1",
            "kind": "Experiment",
            "metadata": {"name": f"mnist-{algorithm}", "namespace": "team"},
            "spec": {key: value for key, value in fields.items() if value is not None},
        }
    )


RANDOM: Final = experiment()
GRID: Final = experiment(
    "grid",
    parameters=[
        {"name": "lr", "parameterType": "double", "feasibleSpace": {"min": "0.001", "max": "0.01", "step": "0.001"}},
        {"name": "batch-size", "parameterType": "discrete", "feasibleSpace": {"list": ["32", "64"]}},
    ],
)
MEDIAN_STOP: Final = experiment(
    earlyStopping={
        "algorithmName": "medianstop",
        "algorithmSettings": [{"name": "min_trials_required", "value": "1"}, {"name": "start_step", "value": "5"}],
    },
    objective={"type": "minimize", "objectiveMetricName": "loss", "additionalMetricNames": ["accuracy"]},
)
