"""The configuration of bundled programs is checked offline by the models that the trainer uses."""

from typing import Any

import pytest
from pydantic import field_validator
from support.factories import CHECKPOINT, TRAINING, manifest

from tfdist.programs import MODELS, config_model
from tfdist.programs.config import ProgramConfig
from tfdist.validation import ValidationFailed, parse, warnings
from tfdist_operator.cache.job_cache import JobCache
from tfdist_operator.config import from_environment
from tfdist_trainer.errors import ConfigurationError
from tfdist_trainer.programs import BUILT_IN
from tfdist_trainer.programs.config import parse_config

DATA = {"train": "/data/train.csv", "eval": ["/data/eval.csv"]}


def problems(**spec: Any) -> list[str]:
    try:
        parse(manifest(**spec))
    except ValidationFailed as error:
        return [p.path for p in error.problems]
    return []


@pytest.mark.parametrize("program", MODELS)
def test_a_field_that_the_trainer_does_not_know_is_rejected(program: str) -> None:
    found = problems(training={"program": program, "config": {"data": DATA, "typo": 1}})
    assert found == ["spec.training.config.typo"]


def test_the_programs_are_those_of_the_trainer() -> None:
    assert set(MODELS) == set(BUILT_IN)


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"data": DATA, "epoch": 3},
        {"data": DATA, "epochs": 3, "steps": 5, "globalBatchSize": 8, "batchSizePerReplica": 8},
        {"data": DATA, "numeric": ["a", "label"], "metrics": ["r3"], "normalize": {"a": {"mean": 0, "deviation": 1}}},
        {"data": DATA, "numeric": ["a"], "classes": [0, 1], "optimizer": {"name": "lion"}},
    ],
    ids=["data", "an unknown field", "exclusive fields", "columns and metrics", "values"],
)
def test_the_trainer_reports_the_errors_of_validate(config: dict[str, Any]) -> None:
    with pytest.raises(ValidationFailed) as offline:
        parse(manifest(training={"program": "tabular", "config": config}))
    with pytest.raises(ConfigurationError) as in_the_pod:
        parse_config(config_model("tabular"), config)
    expected = "; ".join(map(str, offline.value.problems)).replace("spec.", "")
    assert str(in_the_pod.value) == expected.replace("see docs/reference/trainer.md", "check its spelling")


def test_a_rule_of_a_users_class_is_reported_with_its_field_and_text() -> None:
    class Config(ProgramConfig):
        width: int = 3

        @field_validator("width")
        @classmethod
        def _odd(cls, width: int) -> int:
            if width % 2 == 0:
                raise ValueError("must be odd")
            return width

    with pytest.raises(ConfigurationError, match=r"^training\.config\.width: must be odd$"):
        parse_config(Config, {"width": 2})


@pytest.mark.parametrize(
    ("spec", "size"),
    [
        ({"worker": {"replicas": 3}}, 9),
        ({"chief": {}, "worker": {"replicas": 2}}, 9),
        ({"chief": {}, "worker": {"replicas": 4}, "ps": {"replicas": 1}, "strategy": "ParameterServer"}, 9),
        ({"worker": {"replicas": 1}}, 9),
    ],
    ids=["three workers", "a chief and two workers", "each step of one worker", "one worker"],
)
def test_a_global_batch_that_the_replicas_share_evenly_is_valid(spec: dict[str, Any], size: int) -> None:
    config = TRAINING["config"] | {"globalBatchSize": size}
    assert problems(training={**TRAINING, "config": config}, **spec) == []


def test_a_gang_that_evaluates_after_training_shares_a_global_batch_too() -> None:
    given = {**TRAINING, "config": TRAINING["config"] | {"globalBatchSize": 8}}
    evaluation = {"mode": "AfterTraining", "replicas": 3}
    found = problems(training=given, evaluation=evaluation, checkpoint=CHECKPOINT)
    assert found == ["spec.training.config.globalBatchSize"]


@pytest.mark.parametrize("metric", ["loss", "top_5", "keras.Poisson"])
def test_the_best_checkpoint_may_be_selected_by_each_metric_of_the_program(metric: str) -> None:
    metrics = [] if metric == "loss" else [metric]
    given = {**TRAINING, "config": TRAINING["config"] | {"metrics": metrics}}
    spec = {"evaluation": {"mode": "Continuous", "metric": metric}, "evaluator": {}, "checkpoint": CHECKPOINT}
    assert problems(training=given, **spec) == []


@pytest.mark.parametrize(
    "spec",
    [
        {"training": {"program": "mine:Line", "config": {"epochs": "many"}}},
        {"training": {"program": "other"}, "image": "team/trainer:1"},
        {"training": {"program": "other"}, "command": ["python", "mine.py"]},
    ],
    ids=["a class of one's own", "an own image", "an own command"],
)
def test_programs_of_others_are_not_checked(spec: dict[str, Any]) -> None:
    assert problems(**spec) == []


def test_a_command_that_starts_the_bundled_trainer_is_checked() -> None:
    command = ["tfdist-launch", "--", "python", "-m", "tfdist_trainer"]
    assert problems(training={"program": "other"}, command=command) == ["spec.training.program"]


def test_an_image_of_the_installations_defaults_is_not_checked() -> None:
    defaults = {"spec": {"containers": [{"name": "tensorflow", "image": "team/trainer:1"}]}}
    assert parse(manifest(training={"program": "other"}), defaults).spec.training


def stored(store: JobCache, **spec: Any) -> Any:
    job = manifest(**spec)
    job["metadata"] |= {"resourceVersion": "5", "generation": 1}
    store.upsert(job)
    (found,) = store.all()
    return found


def test_the_controller_reports_a_wrong_configuration_before_it_creates_a_pod() -> None:
    found = stored(JobCache(), training={"program": "tabular"})
    assert [str(p) for p in found.problems] == ["spec.training.config.data: Required value"]


def test_an_installation_whose_trainer_image_has_other_programs_does_not_check_them() -> None:
    settings = from_environment({"TFDIST_TRAINER_IMAGE": "team/trainer:1", "TFDIST_CHECK_PROGRAMS": "false"})
    found = stored(JobCache(check_programs=settings.check_programs), training={"program": "other"})
    assert found.problems == ()


@pytest.mark.parametrize(
    ("spec", "paths"),
    [
        ({}, []),
        ({"command": ["python", "train.py"]}, ["spec.command"]),
        ({"worker": {"replicas": 2, "command": ["python", "train.py"]}}, ["spec.worker.command"]),
        ({"command": ["sh", "-c", "pip install x && python -m tfdist_trainer"]}, []),
        ({"image": "team/train:1"}, []),
        ({"worker": {"template": {"spec": {"hostNetwork": True}}}}, ["spec.worker.template.spec.hostNetwork"]),
        ({"template": {"spec": {"hostNetwork": False}}}, []),
    ],
)
def test_a_warning_names_what_has_no_effect_or_a_risk(spec: dict[str, Any], paths: list[str]) -> None:
    job = parse(manifest(**spec))
    assert job.spec.training is not None
    assert job.spec.training.program == TRAINING["program"]
    assert [warning.path for warning in warnings(job)] == paths


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"classes": [False, "b"]}, "config.classes[0]: Invalid value: false: must be a string"),
        ({"classes": ["a"]}, "config.classes: Invalid value: list: must have at least 2 items"),
        ({"classes": 1}, "config.classes: Invalid value: 1: must be at least 2"),
        ({"classes": "many"}, 'config.classes: Invalid value: "many": must be an integer or a list'),
        ({"numeric": ["a", 5]}, "config.numeric[1]: Invalid value: 5: must be a string"),
        ({"numeric": {"a": 0}}, "config.numeric.a: Invalid value: 0: must be at least 1"),
        ({"categorical": {"a": [1.5]}}, "config.categorical.a[0]: Invalid value: 1.5: must be a string"),
        ({"normalize": {"a": {"mean": 1}}}, "config.normalize.a.deviation: Required value"),
        ({"data": {"train": ["/a", 3]}}, "config.data.train[1]: Invalid value: 3: must be a string"),
    ],
)
def test_a_value_of_an_allowed_type_is_reported_by_its_wrong_part(config: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationFailed) as caught:
        parse(manifest(training={"program": "tabular", "config": {"data": DATA} | config}))
    assert [str(p) for p in caught.value.problems if str(p).startswith(f"spec.training.{message}")]
    assert len(caught.value.problems) == 1
