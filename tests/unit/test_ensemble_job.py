"""The job that `tfdist evaluate --ensemble` makes of the best trials of a sweep."""

from typing import Any

import pytest
from support.sweeps import sweep_manifest

from tfdist.client.errors import NotPossible
from tfdist.client.evaluation_job import ensemble_job
from tfdist.client.submission import check
from tfdist.client.sweep import Sweep

Json = dict[str, Any]

VOLUME: Json = {"persistentVolumeClaim": {"claimName": "ckpt"}}
UNITS: Json = {"name": "hiddenUnits", "values": [64, 128]}
RATE: Json = {"name": "learningRate", "values": [0.1, 0.01]}
SEED: Json = {"name": "seed", "field": "runtime.seed", "values": [1, 2, 3]}
WARMUP: Json = {"name": "warmup", "env": "WARMUP", "values": [1, 2]}


def best(trial: int, **fields: Any) -> Json:
    """Return an entry of `status.best`."""
    name = f"fashion-lr-{trial}"
    return {"trial": trial, "job": name, "parameters": {}, "value": 0.9 - trial / 100, "step": 40,
            "checkpoint": f"/ckpt/{name}/checkpoint-000000040"} | fields  # fmt: skip


def stored(parameters: list[Json], *found: Json, **template: Any) -> Sweep:
    """Return a sweep as a cluster has it, with its best trials."""
    checkpoint = {"directory": "/ckpt/{name}", "volume": VOLUME, "everySteps": 5}
    manifest = sweep_manifest(template={"checkpoint": checkpoint} | template, parameters=parameters)
    return Sweep(manifest | {"status": {"best": list(found)}})


def test_the_best_trials_become_the_members_of_an_evaluation_with_a_directory_of_its_own() -> None:
    # given
    seeds = [{"seed": 3}, {"seed": 1}]
    sweep = stored(
        [SEED],
        *(best(number, parameters=each) for number, each in enumerate(seeds)),
        evaluation={"mode": "AfterTraining", "replicas": 3, "metric": "loss", "goal": "Minimize"},
        env=[{"name": "OWN", "value": "x"}],
        tensorBoard={},
    )
    # when
    made = ensemble_job(sweep)
    # then
    check(made | {"metadata": {"name": "result", "namespace": "team"}})
    assert made["metadata"] == {"generateName": "fashion-lr-ensemble-", "namespace": "team"}
    spec = made["spec"]
    assert (spec["task"], spec["worker"]["replicas"]) == ("Evaluate", 3)
    assert spec["checkpoint"] == {"directory": "/ckpt/{name}", "volume": VOLUME}
    assert spec["evaluation"] == {
        "metric": "loss",
        "goal": "Minimize",
        "ensemble": [{"checkpoint": best(number)["checkpoint"]} for number in (0, 1)],
    }
    assert spec["env"] == [{"name": "OWN", "value": "x"}]
    assert "tensorBoard" not in spec


def test_a_member_has_the_fields_of_its_model_that_differ_and_none_that_only_training_has() -> None:
    values = [{"hiddenUnits": units, "learningRate": rate} for units, rate in ((64, 0.1), (64, 0.01), (128, 0.1))]
    sweep = stored([UNITS, RATE], *(best(number, parameters=each) for number, each in enumerate(values)))

    made = ensemble_job(sweep, name="result", workers=4)

    assert made["spec"]["training"]["config"]["hiddenUnits"] == 64
    assert [member.get("config") for member in made["spec"]["evaluation"]["ensemble"]] == [
        None,
        None,
        {"hiddenUnits": 128},
    ]
    assert (made["metadata"]["name"], made["spec"]["worker"]["replicas"]) == ("result", 4)


def test_an_environment_variable_is_that_of_the_best_trial() -> None:
    sweep = stored([WARMUP], best(0, parameters={"warmup": 2}), best(1, parameters={"warmup": 1}))

    assert ensemble_job(sweep)["spec"]["env"] == [{"name": "WARMUP", "value": "2"}]


@pytest.mark.parametrize(
    ("sweep", "message"),
    [
        (stored([SEED]), "has 0 trials with a checkpoint in status.best, and an ensemble needs two"),
        (
            stored([SEED], best(0, parameters={"seed": 1}), best(1, parameters={"seed": 2}, checkpoint=None)),
            "has 1 trials with a checkpoint in status.best",
        ),
        (
            stored([SEED], *(best(n, parameters={"seed": n}) for n in (1, 2)), training={"script": "/train.py"}),
            "do not run one training.program",
        ),
        (
            stored(
                [{"name": "program", "field": "training.program", "values": ["a:B", "a:C"]}],
                best(0, parameters={"program": "a:B"}),
                best(1, parameters={"program": "a:C"}),
            ),
            "do not run one training.program",
        ),
    ],
)
def test_trials_that_are_no_ensemble_are_rejected(sweep: Sweep, message: str) -> None:
    with pytest.raises(NotPossible, match=message):
        ensemble_job(sweep)
