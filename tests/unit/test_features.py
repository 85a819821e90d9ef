"""The table of features: each field of the specification is acted on or rejected, and all parts reject alike."""

import pathlib
import re
from collections.abc import Iterator
from typing import Any, Final

import pytest
from pydantic import BaseModel
from pydantic.alias_generators import to_snake
from support.factories import manifest

from tfdist.api.base import ApiModel
from tfdist.api.crd import crd
from tfdist.api.features import ACTED_ON, PLANNED, Actor, Planned
from tfdist.api.pod_fields import PodFields
from tfdist.api.v1 import TFDistJobSpec
from tfdist.validation import ValidationFailed, parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
CODE: Final = {
    Actor.CONTROLLER: (
        "operator/tfdist_operator",
        "sdk/tfdist/desired",
        "sdk/tfdist/planner",
        "sdk/tfdist/failure_classification.py",
    ),
    Actor.POD: ("sdk/tfdist/render", "sdk/tfdist/api/v1.py"),
    Actor.TRAINER: ("trainer_image/tfdist_trainer",),
}
GENERIC: Final = {alias for field in PodFields.model_fields.values() if (alias := field.alias)}
"""Short forms, which become the container or pod as they are; tests/unit/test_render.py has them."""
VALUES: Final[dict[str, Any]] = {
    "elastic": {"minWorkers": 1},
    "oomPolicy": {},
    "scheduling.gang": "Kueue",
    "runPolicy.updateStrategy": "InPlace",
}


def model_in(annotation: Any) -> type[ApiModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, ApiModel):
        return annotation
    return next((m for a in getattr(annotation, "__args__", ()) if (m := model_in(a))), None)


def leaves(model: type[BaseModel], path: str = "") -> Iterator[str]:
    """Every field that holds no model of the API; the short forms of a role are those of the job."""
    shared = PodFields.model_fields if path and issubclass(model, PodFields) else {}
    for name, field in model.model_fields.items():
        here = f"{path}{field.alias}"
        inner = model_in(field.annotation)
        if inner is not None and name not in shared:
            yield from leaves(inner, f"{here}.")
        elif name not in shared:
            yield here


def covers(entry: str, path: str) -> bool:
    return f"{path}.".startswith(f"{entry}.")


def source(actor: Actor) -> str:
    files = [f for place in CODE[actor] for f in ((ROOT / place).rglob("*.py") if "." not in place else [ROOT / place])]
    return "\n".join(file.read_text(encoding="utf-8") for file in files)


@pytest.mark.parametrize("path", sorted(set(leaves(TFDistJobSpec))))
def test_a_field_is_either_acted_on_or_rejected(path: str) -> None:
    acted_on = [entry for entry in ACTED_ON if covers(entry, path)]
    rejected = [feature for feature in PLANNED if not feature.values and covers(feature.path, path)]
    assert len(acted_on) + len(rejected) == 1, f"put {path} into tfdist/api/features.py: ACTED_ON or PLANNED"


@pytest.mark.parametrize("path", ACTED_ON)
def test_the_code_of_the_actor_reads_the_field(path: str) -> None:
    assert any(covers(path, leaf) for leaf in leaves(TFDistJobSpec)), f"there is no field {path}"
    name = to_snake(path.rpartition(".")[2]).replace("mi_b", "mib")
    if path not in GENERIC and path != "scheduling.gang":
        assert re.search(rf"\.{name}\b|\breplicas\(", source(ACTED_ON[path])), f"{ACTED_ON[path]} does not read {name}"


@pytest.mark.parametrize("feature", PLANNED, ids=lambda f: f.path)
def test_a_planned_feature_is_rejected_by_validation_with_the_message_of_the_table(feature: Planned) -> None:
    spec: Any = VALUES[feature.path]
    for name in reversed(feature.path.split(".")):
        spec = {name: spec}
    with pytest.raises(ValidationFailed) as caught:
        parse(manifest(**spec))
    assert [str(p) for p in caught.value.problems] == [f"spec.{feature.path}: {feature.message}"]
    assert "not supported by this version of TFDist; planned. Remove the field." in feature.message


@pytest.mark.parametrize("feature", PLANNED, ids=lambda f: f.path)
def test_a_planned_feature_is_rejected_by_the_definition_with_the_same_message(feature: Planned) -> None:
    rules = crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["x-kubernetes-validations"]
    (found,) = (rule for rule in rules if rule.get("fieldPath") == f".spec.{feature.path}")
    assert (found["rule"], found["message"]) == (feature.cel("self"), feature.message)


@pytest.mark.parametrize("gang", ["Auto", "None", "Native", "Volcano", "Coscheduling", "KAI"])
def test_the_supported_values_of_gang_are_accepted(gang: str) -> None:
    assert parse(manifest(scheduling={"gang": gang})).spec.scheduling.gang == gang


def test_the_content_of_a_rejected_field_is_not_reported_too() -> None:
    with pytest.raises(ValidationFailed) as caught:
        parse(manifest(elastic={"minWorkers": 0, "typo": 1}))
    assert [p.path for p in caught.value.problems] == ["spec.elastic"]
