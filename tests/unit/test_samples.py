"""The samples: each is a valid job or sweep that sets no default, and together they show every feature."""

import runpy
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel
from support.samples import FOLDER, ROOT, SAMPLES, SWEEP_SAMPLES, sample, text

from tfdist.api.features import PLANNED
from tfdist.api.sweep import CleanTrials, SearchMethod, TFDistSweep
from tfdist.api.training import EvaluationMode
from tfdist.api.v1 import Strategy, TFDistJobSpec
from tfdist.contract import Task
from tfdist.desired.objects import objects
from tfdist.render.gang import gangs
from tfdist.render.names import tensorboard
from tfdist.validation import parse


def defaults_written_out(model: BaseModel, path: str) -> Iterator[str]:
    """Every field that a manifest sets to its default."""
    for name in model.model_fields_set & type(model).model_fields.keys():
        value, field = getattr(model, name), type(model).model_fields[name]
        here = f"{path}.{field.alias}"
        if not field.is_required() and value == field.get_default(call_default_factory=True, validated_data={}):
            yield here
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, BaseModel):
                yield from defaults_written_out(item, here)


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_is_a_valid_job_named_like_its_file(name: str) -> None:
    assert parse(sample(name)).metadata.name == name


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_renders_one_service_and_the_pods_of_every_gang(name: str) -> None:
    job = parse(sample(name))
    made = objects(job, "tfdist/trainer:dev")
    kinds = [one["kind"] for one in made if one["metadata"]["name"] != tensorboard(name)]
    assert kinds.count("Service") == 1
    assert kinds.count("Pod") == sum(len(gang.members) for gang in gangs(job))


def test_sidecars_of_samples_are_native_and_end_with_the_replica() -> None:
    pods = [made["spec"] for name in SAMPLES for made in objects(parse(sample(name)), "x") if made["kind"] == "Pod"]
    assert {container["name"] for pod in pods for container in pod["containers"]} == {"tensorflow"}
    started_before = [container for pod in pods for container in pod.get("initContainers", ())]
    assert "Always" in {container.get("restartPolicy") for container in started_before}


@pytest.mark.parametrize("name", SWEEP_SAMPLES)
def test_a_sample_of_a_sweep_is_valid_with_a_valid_job_and_named_like_its_file(name: str) -> None:
    sweep = TFDistSweep.model_validate(sample(name))
    assert sweep.metadata.name == name
    job = {"apiVersion": "tfdist.dev/v1", "kind": "TFDistJob", "metadata": {"name": name}}
    assert parse(job | sample(name)["spec"]["template"]).spec == sweep.spec.template.spec


def test_samples_of_sweeps_show_a_random_search_with_early_stopping_and_a_grid_over_seeds() -> None:
    specs = [TFDistSweep.model_validate(sample(name)).spec for name in SWEEP_SAMPLES]
    assert {spec.search.method for spec in specs} == {SearchMethod.RANDOM, SearchMethod.GRID}
    assert {spec.clean_trials for spec in specs} == {CleanTrials.STOPPED, CleanTrials.ALL_BUT_BEST}
    assert any(spec.early_stopping for spec in specs)
    assert ["runtime", "seed"] in [[*parameter.target] for spec in specs for parameter in spec.parameters]


@pytest.mark.parametrize("name", [*SAMPLES, *SWEEP_SAMPLES])
def test_a_sample_begins_with_what_it_shows_and_what_to_try(name: str) -> None:
    first, second, third = text(name).splitlines()[:3]
    assert first.startswith("# ")
    assert first.endswith(".")
    assert second.startswith("# ")
    assert third == f"apiVersion: {sample(name)['apiVersion']}"


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_sets_no_default(name: str) -> None:
    assert list(defaults_written_out(parse(sample(name)).spec, "spec")) == []


@pytest.mark.parametrize("name", SWEEP_SAMPLES)
def test_a_sample_of_a_sweep_sets_no_default(name: str) -> None:
    assert list(defaults_written_out(TFDistSweep.model_validate(sample(name)).spec, "spec")) == []


def test_a_default_that_is_written_out_would_be_found() -> None:
    spec = TFDistJobSpec.model_validate({"image": "a", "worker": {"replicas": 1}, "runPolicy": {"backoffLimit": 3}})
    assert sorted(defaults_written_out(spec, "spec")) == [
        "spec.runPolicy",
        "spec.runPolicy.backoffLimit",
        "spec.worker.replicas",
    ]


def shown(*path: str) -> set[Any]:
    """The values that the samples give to a field."""
    values = set()
    for name in SAMPLES:
        value: Any = sample(name)["spec"]
        for part in path:
            value = value.get(part, {})
        if isinstance(value, str):
            values.add(value)
    return values


def test_every_field_of_the_specification_is_in_a_sample() -> None:
    used = {field for name in SAMPLES for field in sample(name)["spec"]}
    planned = {feature.path for feature in PLANNED}
    assert used == {field.alias for field in TFDistJobSpec.model_fields.values()} - planned


def test_every_strategy_task_and_evaluation_mode_is_in_a_sample() -> None:
    assert shown("strategy") == set(Strategy) - {Strategy.MULTI_WORKER_MIRRORED}
    assert shown("task") == set(Task) - {Task.TRAIN}
    assert shown("evaluation", "mode") == set(EvaluationMode) - {EvaluationMode.NONE}


def test_the_index_lists_every_sample_and_what_it_shows() -> None:
    index = runpy.run_path(str(ROOT / "hack" / "generate" / "crds" / "samples_index.py"))["index"]
    assert (FOLDER / "README.md").read_text(encoding="utf-8") == index(), "run `make generate`"
