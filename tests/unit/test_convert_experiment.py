"""Katib's Experiments of TFJobs become sweeps: every field is kept or reported in a note, and values reach programs."""

import pathlib
from copy import deepcopy
from typing import Any

import pytest
import yaml
from support.experiments import ARGUMENTS, GRID, MEDIAN_STOP, PARAMETERS, RANDOM, experiment, trial_spec
from support.tfjobs import replica

from tfdist.cli.main import main
from tfdist.convert import CannotConvert
from tfdist.convert.experiment import convert_experiment
from tfdist.sweeps.trial import trial_manifest
from tfdist.sweeps.values import trial_count
from tfdist.validation.sweep import parse_sweep

Json = dict[str, Any]


def spec(given: Json) -> Json:
    made: Json = convert_experiment(given).manifest["spec"]
    return made


def notes(given: Json) -> dict[str, str]:
    return {note.path: note.message for note in convert_experiment(given).notes}


def problems(given: Json) -> dict[str, str]:
    with pytest.raises(CannotConvert) as raised:
        convert_experiment(given)
    return {problem.path: problem.message for problem in raised.value.problems}


def with_parameter(kind: str, **space: Any) -> Json:
    """Return an Experiment whose first parameter has other values."""
    return experiment(parameters=[{"name": "lr", "parameterType": kind, "feasibleSpace": space}, PARAMETERS[1]])


def parameter(kind: str, **space: Any) -> Json:
    made: Json = spec(with_parameter(kind, **space))["parameters"][0]
    return {key: value for key, value in made.items() if key not in {"name", "env"}}


def test_a_random_experiment_becomes_a_random_sweep() -> None:
    made = convert_experiment(RANDOM).manifest

    assert made["metadata"] == {"name": "mnist-random", "namespace": "team"}
    template = made["spec"].pop("template")
    assert made["spec"] == {
        "metric": "accuracy",
        "goal": "Maximize",
        "targetValue": 0.99,
        "parameters": [
            {"name": "lr", "env": "SWEEP_LR", "range": {"min": 0.01, "max": 0.05}},
            {"name": "batch_size", "env": "SWEEP_BATCH_SIZE", "range": {"min": 32, "max": 128, "step": 1}},
        ],
        "search": {"method": "Random", "trials": 12},
        "parallelism": 3,
        "maxFailedTrials": 2,
        "cleanTrials": "AllButBest",
    }
    assert template["spec"]["worker"] == {"replicas": 2}
    assert template["spec"]["args"] == ["--lr=$(SWEEP_LR)", "--batch=$(SWEEP_BATCH_SIZE)"]


@pytest.mark.parametrize("given", [RANDOM, GRID, MEDIAN_STOP], ids=["random", "grid", "medianstop"])
def test_the_sweep_is_valid_and_its_trials_set_the_variables(given: Json) -> None:
    made = convert_experiment(given).manifest
    sweep = parse_sweep(made)

    job = trial_manifest(made, sweep, 0)

    names = [variable["name"] for variable in job["spec"]["env"]]
    assert {"SWEEP_LR", "SWEEP_BATCH_SIZE"} <= set(names)


def test_the_experiment_is_not_changed() -> None:
    before = deepcopy(RANDOM)
    convert_experiment(RANDOM)
    assert before == RANDOM


def test_a_grid_has_at_most_a_trial_for_each_combination() -> None:
    assert spec(GRID)["search"] == {"method": "Grid", "trials": 12}
    assert spec(GRID | {"spec": GRID["spec"] | {"maxTrialCount": 30}})["search"] == {"method": "Grid"}
    assert trial_count(parse_sweep(convert_experiment(GRID).manifest).spec) == 12


def test_median_stop_becomes_median_and_the_unit_of_its_step_has_a_note() -> None:
    assert spec(MEDIAN_STOP)["earlyStopping"] == {"method": "Median", "minSteps": 5, "minTrials": 1}
    assert "minSteps counts training steps" in notes(MEDIAN_STOP)["spec.earlyStopping.algorithmName"]
    assert spec(experiment(earlyStopping={"algorithmName": "medianstop"}))["earlyStopping"] == {
        "method": "Median",
        "minSteps": 4,
        "minTrials": 3,
    }


def test_an_experiment_that_minimizes_without_a_goal_has_no_target() -> None:
    made = spec(MEDIAN_STOP)

    assert (made["metric"], made["goal"]) == ("loss", "Minimize")
    assert "targetValue" not in made
    assert "has all metrics" in notes(MEDIAN_STOP)["spec.objective.additionalMetricNames"]


OBJECTIVE = "spec.objective.objectiveMetricName"
EVENTS: Json = {"collector": {"kind": "TensorFlowEvent"}, "source": {"fileSystemPath": {"path": "/logs"}}}
VALIDATION: Json = EVENTS | {"source": {"fileSystemPath": {"path": "/logs/validation/"}}}
STD_OUT: Json = {"collector": {"kind": "StdOut"}}


def with_metric(name: str, collector: Json | None) -> Json:
    return experiment(objective={"type": "maximize", "objectiveMetricName": name}, metricsCollectorSpec=collector)


@pytest.mark.parametrize(
    ("name", "collector", "expected"),
    [
        ("epoch_loss", EVENTS, "loss"),
        ("epoch_accuracy", {"collector": {"kind": "TensorFlowEvent"}}, "accuracy"),
        ("train/epoch_loss", EVENTS, "loss"),
        ("validation/epoch_loss", EVENTS, "val_loss"),
        ("epoch_mean_absolute_error", VALIDATION, "val_mean_absolute_error"),
    ],
)
def test_a_tag_of_keras_event_files_becomes_the_metric_of_fit(name: str, collector: Json, expected: str) -> None:
    given = with_metric(name, collector)
    assert spec(given)["metric"] == expected
    assert notes(given)[OBJECTIVE].startswith(f"{name}, a tag of Keras' callback TensorBoard, becomes {expected}, ")


@pytest.mark.parametrize(
    ("name", "collector", "likely"),
    [
        ("Validation-loss", STD_OUT, "val_loss"),
        ("Train-accuracy", None, "accuracy"),
        ("test/accuracy", EVENTS, "val_accuracy"),
        ("validation_loss", STD_OUT, "val_loss"),
        ("epoch_loss", STD_OUT, "loss"),
        ("batch_loss", EVENTS, "loss"),
        ("f1 score", STD_OUT, "its name in the History of fit"),
    ],
)
def test_a_name_that_fit_does_not_report_is_noted(name: str, collector: Json | None, likely: str) -> None:
    given = with_metric(name, collector)
    assert spec(given)["metric"] == name
    assert notes(given)[OBJECTIVE].startswith(f"{name} is kept, but fit of Keras reports no metric of this name")
    assert f"write {likely} if that" in notes(given)[OBJECTIVE]


@pytest.mark.parametrize("collector", [None, EVENTS, STD_OUT, {"collector": "x", "source": []}])
@pytest.mark.parametrize("name", ["loss", "val_loss", "accuracy", "auc_1", "training", "f1"])
def test_a_name_that_fit_may_report_is_kept(name: str, collector: Json | None) -> None:
    given = with_metric(name, collector)
    assert spec(given)["metric"] == name
    assert notes(given)[OBJECTIVE].startswith("is read from status.progress.metrics")


@pytest.mark.parametrize(
    ("kind", "space", "expected"),
    [
        ("double", {"min": "1e-4", "max": "0.1", "distribution": "logUniform"},
         {"range": {"min": 0.0001, "max": 0.1, "scale": "Log"}}),
        ("double", {"min": "0", "max": "1", "step": "0.25", "distribution": "uniform"},
         {"range": {"min": 0, "max": 1, "step": 0.25}}),
        ("int", {"min": "2", "max": "8", "step": "2"}, {"range": {"min": 2, "max": 8, "step": 2}}),
        ("int", {"min": "1", "max": "64", "distribution": "logUniform"},
         {"range": {"min": 1, "max": 64, "step": 1, "scale": "Log"}}),
        ("discrete", {"list": ["0.1", "1", "10"]}, {"values": [0.1, 1, 10]}),
        ("categorical", {"list": ["sgd", "adam"]}, {"values": ["sgd", "adam"]}),
    ],
)  # fmt: skip
def test_the_values_of_a_parameter_are_kept(kind: str, space: Json, expected: Json) -> None:
    assert parameter(kind, **space) == expected


def test_a_normal_distribution_becomes_uniform_with_a_note() -> None:
    given = with_parameter("double", min="0.1", max="1", distribution="logNormal")

    assert spec(given)["parameters"][0]["range"]["scale"] == "Log"
    assert "becomes uniform on the scale Log" in notes(given)["spec.parameters[0].feasibleSpace.distribution"]


@pytest.mark.parametrize(
    ("kind", "space", "path", "message"),
    [
        ("double", {"min": "a", "max": "1"}, "feasibleSpace.min", "'a' is not a number"),
        ("double", {"max": "inf"}, "feasibleSpace.min", "required value"),
        ("discrete", {"list": ["1", "x"]}, "feasibleSpace.list[1]", "'x' is not a number"),
        ("fp8", {}, "parameterType", "'fp8' is not one of double, int, discrete, categorical"),
    ],
)
def test_values_that_are_no_numbers_are_errors(kind: str, space: Json, path: str, message: str) -> None:
    assert problems(with_parameter(kind, **space)) == {f"spec.parameters[0].{path}": message}


@pytest.mark.parametrize(("algorithm", "advice"), [("tpe", "Optuna"), ("hyperband", "Asha"), ("sobol", "Grid")])
def test_another_algorithm_becomes_random_with_what_to_use_instead(algorithm: str, advice: str) -> None:
    given = experiment(algorithm)

    assert spec(given)["search"]["method"] == "Random"
    assert advice in notes(given)["spec.algorithm.algorithmName"]


def test_an_algorithm_without_a_counterpart_is_an_error() -> None:
    assert "pbt has no counterpart" in problems(experiment("pbt"))["spec.algorithm.algorithmName"]
    assert problems(experiment(nasConfig={})) == {
        "spec.nasConfig": "TFDist has no counterpart of the search for architectures"
    }


def test_the_seed_is_kept_and_other_settings_have_a_note() -> None:
    settings = [{"name": "random_state", "value": "10"}, {"name": "n_startup_trials", "value": "5"}]
    given = experiment(algorithm="tpe") | {}
    given["spec"]["algorithm"]["algorithmSettings"] = settings

    assert spec(given)["search"]["seed"] == 10
    assert "n_startup_trials is dropped" in notes(given)["spec.algorithm.algorithmSettings"]


def test_the_limits_that_katib_has_by_default_are_written_or_noted() -> None:
    given = experiment(parallelTrialCount=None, maxTrialCount=None, maxFailedTrialCount=None)

    made, found = spec(given), notes(given)

    assert (made["parallelism"], made["search"]["trials"]) == (3, 500)
    assert "maxFailedTrials" not in made
    assert {"spec.parallelTrialCount", "spec.maxTrialCount", "spec.maxFailedTrialCount"} <= set(found)


def test_trials_that_are_retained_are_not_cleaned() -> None:
    assert spec(experiment(template={"retain": True}))["cleanTrials"] == "None"


def test_placeholders_in_variables_and_commands_become_references_too() -> None:
    worker = replica(
        1,
        command=["sh", "-c", "python train.py --lr ${trialParameters.learningRate}"],
        env=[{"name": "BATCH", "value": "${trialParameters.batchSize}"}],
    )
    job = spec(experiment(template={"trialSpec": trial_spec({"Worker": worker})}))["template"]["spec"]

    assert job["command"] == ["sh", "-c", "python train.py --lr $(SWEEP_LR)"]
    assert job["env"] == [{"name": "BATCH", "value": "$(SWEEP_BATCH_SIZE)"}]


def test_a_parameter_without_a_placeholder_is_kept_with_the_variable_in_a_note() -> None:
    worker = replica(1, args=ARGUMENTS[:1])
    given = experiment(template={"trialSpec": trial_spec({"Worker": worker})})

    assert "SWEEP_BATCH_SIZE" in notes(given)["spec.parameters[1]"]


@pytest.mark.parametrize(
    ("worker", "path"),
    [
        (replica("${trialParameters.batchSize}", args=ARGUMENTS),  # type: ignore[arg-type]
         "replicas"),
        (replica(1, image="train:${trialParameters.lr}"), "template.spec.containers[0].image"),
        (replica(1, {"containers": [{"name": "tensorflow", "image": "a"},
                                    {"name": "side", "image": "a", "args": ["${trialParameters.lr}"]}]}),
         "template.spec.containers[1].args[0]"),
        (replica(1, env=[{"name": "${trialParameters.lr}", "value": "1"}]), "template.spec.containers[0].env[0].name"),
    ],
    ids=["replicas", "image", "sidecar", "name"],
)  # fmt: skip
def test_a_placeholder_elsewhere_is_an_error_with_the_remedy(worker: Json, path: str) -> None:
    found = problems(experiment(template={"trialSpec": trial_spec({"Worker": worker})}))

    place = f"spec.trialTemplate.trialSpec.spec.tfReplicaSpecs.Worker.{path}"
    assert "write the parameter of the sweep with field instead of env" in found[place]


def test_a_placeholder_without_a_parameter_is_an_error() -> None:
    given = experiment(template={"trialParameters": [{"name": "learningRate", "reference": "rate"}]})
    found = problems(given)

    assert found["spec.trialTemplate.trialParameters[0].reference"] == "spec.parameters has no parameter 'rate'"
    given = experiment(template={"trialParameters": [{"name": "learningRate", "reference": "${trialSpec.Name}"}]})
    assert "TFDIST_TRIAL" in problems(given)["spec.trialTemplate.trialParameters[0].reference"]


def test_names_that_become_equal_stay_distinct() -> None:
    twice = [PARAMETERS[0] | {"name": name} for name in ("--learningRate", "learningRate", "learning-rate", "2x")]
    made = spec(experiment(parameters=twice, template={"trialParameters": [], "trialSpec": trial_spec(
        {"Worker": replica(1)})}))["parameters"]  # fmt: skip

    assert [each["name"] for each in made] == ["learningRate", "learningRate_", "learning_rate", "_2x"]
    assert len({each["env"] for each in made}) == 4


def test_fields_that_a_sweep_does_not_have_are_noted() -> None:
    given = experiment(
        metricsCollectorSpec={"collector": {"kind": "StdOut"}},
        resumePolicy="LongRunning",
        template={"successCondition": "x"},
    )
    given["spec"]["trialTemplate"]["trialSpec"]["spec"]["runPolicy"] = {"ttlSecondsAfterFinished": 5}

    found = notes(given)

    assert "no sidecar reads the output" in found["spec.metricsCollectorSpec"]
    assert {"spec.resumePolicy", "spec.trialTemplate.successCondition"} <= set(found)
    assert "spec.trialTemplate.primaryContainerName" not in found
    assert "the sweep deletes its jobs" in found["spec.trialTemplate.trialSpec.spec.runPolicy.ttlSecondsAfterFinished"]
    assert "ttlSecondsAfterFinished" not in spec(given)["template"]["spec"]["runPolicy"]
    assert "tfdist_trainer.report" in found["spec.objective.objectiveMetricName"]


def test_errors_and_notes_of_the_tfjob_have_paths_of_the_experiment() -> None:
    given = experiment(template={"trialSpec": trial_spec({"Leader": replica(1)})})
    path = "spec.trialTemplate.trialSpec.spec.tfReplicaSpecs"

    assert set(problems(given)) == {f"{path}.Leader"}
    assert f"{path}.Worker.restartPolicy" in notes(RANDOM)


def test_a_field_of_a_wrong_type_is_an_error() -> None:
    assert set(problems(experiment(maxTrialCount="12"))) == {"spec.maxTrialCount"}
    assert set(problems(experiment(objective={"type": "best", "objectiveMetricName": "a"}))) == {"spec.objective.type"}


def test_the_command_converts_experiments_of_tfjobs_only(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = experiment(template={"trialSpec": {"apiVersion": "batch/v1", "kind": "Job"}})
    file = tmp_path / "katib.yaml"
    file.write_text(yaml.safe_dump_all([RANDOM, other]), encoding="utf-8")

    assert main(["convert", str(file)]) == 0

    out, err = capsys.readouterr()
    sweep, unchanged = yaml.safe_load_all(out)
    assert (sweep["kind"], unchanged) == ("TFDistSweep", other)
    assert out.startswith("# Converted from Experiment mnist-random. What changes:\n")
    assert "spec.objective.objectiveMetricName: is read from status.progress.metrics" in err


def test_a_converted_sweep_that_is_invalid_is_reported(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "katib.yaml"
    given = experiment("grid")
    file.write_text(yaml.safe_dump(given), encoding="utf-8")

    assert main(["convert", str(file)]) == 1
    assert "the converted TFDistSweep is invalid, correct it there: spec.parameters[0]" in capsys.readouterr().err
