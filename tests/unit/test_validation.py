"""Validation of a manifest: every error has one problem, with the path of its field and the remedy."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel
from support.bad_manifests import BAD, Bad
from support.factories import EVALUATED, manifest

from tfdist.api.base import CrossFieldRule
from tfdist.api.crd import structural
from tfdist.api.features import PLANNED
from tfdist.api.v1 import TFDistJob, TFDistJobSpec
from tfdist.validation import FieldError, ValidationFailed, parse

CLAIM = {"name": "data", "persistentVolumeClaim": {"claimName": "c"}}
ROLES = ("chief", "worker", "ps", "evaluator")


def problems(bad: dict[str, Any]) -> list[FieldError]:
    try:
        parse(bad)
    except ValidationFailed as error:
        return error.problems
    return []


def models(annotation: Any) -> Iterator[type[BaseModel]]:
    """Every model that a value of the type may hold."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
        for field in annotation.model_fields.values():
            yield from models(field.annotation)
    for inner in getattr(annotation, "__args__", ()):
        yield from models(inner)


def cross_field_rules() -> list[CrossFieldRule]:
    return [rule for model in dict.fromkeys(models(TFDistJob)) for rule in getattr(model, "cross_field_rules", ())]


def leaves(schema: dict[str, Any], path: str) -> Iterator[str]:
    """The paths of all fields that hold no object; those that every role shares with the job are the job's."""
    properties = schema.get("properties") or {}
    shared = properties.keys() if path == "spec" else ()
    for name, field in properties.items():
        fields = field.get("properties") or {}
        own = {k: v for k, v in fields.items() if name not in ROLES or k not in shared}
        yield from leaves({**field, "properties": own}, f"{path}.{name}")
    for inner in ("items", "additionalProperties"):
        if isinstance(schema.get(inner), dict):
            yield from leaves(schema[inner], path)
    if "properties" not in schema and schema.get("type") != "array":
        yield path


@pytest.mark.parametrize("bad", BAD, ids=str)
def test_each_error_is_reported_once_with_its_path_and_message(bad: Bad) -> None:
    found = problems(bad.manifest)
    assert sorted(p.path for p in found) == sorted([bad.path, *bad.also])
    assert any(p.path == bad.path and bad.message in p.message for p in found), found


def test_the_table_of_errors_is_long_and_has_unique_names() -> None:
    names = [bad.name for bad in BAD]
    assert len(names) >= 300
    assert len(names) == len(set(names))


@pytest.mark.parametrize("rule", cross_field_rules(), ids=lambda rule: rule.message)
def test_every_rule_between_fields_is_violated_by_a_manifest_of_the_table(rule: CrossFieldRule) -> None:
    found = [problem for bad in BAD for problem in problems(bad.manifest)]
    assert any(p.message.startswith(rule.message) and p.path.endswith(rule.path) for p in found)


def test_every_field_has_an_invalid_value_in_the_table() -> None:
    wrong = {re.sub(r"\[[^\]]*\]", "", bad.path) for bad in BAD}
    planned = tuple(f"spec.{feature.path}" for feature in PLANNED if not feature.values)
    asked = [path for path in leaves(structural(TFDistJobSpec), "spec") if not path.startswith(planned)]
    untested = [path for path in asked if not _is_in(path, wrong)]
    assert untested == []


def _is_in(path: str, wrong: set[str]) -> bool:
    return any(f"{bad}.".startswith(f"{path}.") for bad in wrong)


def test_no_message_is_longer_than_three_lines_of_a_terminal() -> None:
    assert [p for bad in BAD for p in problems(bad.manifest) if len(p.message) > 240] == []


def test_all_errors_are_reported_at_once() -> None:
    found = problems(manifest(wroker={}, strategy="x", worker={"replicas": 0}, env=[{"name": "TF_CONFIG"}]))
    assert {p.path for p in found} == {"spec.strategy", "spec.worker.replicas", "spec.wroker", "spec.env[0].name"}


def test_a_malformed_field_does_not_hide_the_errors_of_a_template() -> None:
    found = problems(manifest(strategy="x", template={"spec": {"hostname": "a"}}))
    assert {p.path for p in found} == {"spec.strategy", "spec.template.spec.hostname"}


def test_an_error_of_one_role_is_not_reported_for_another() -> None:
    found = problems(manifest(chief={}, worker={"volumeMounts": [{"name": "x", "mountPath": "/x"}]}))
    assert [p.path for p in found] == ["spec.worker.volumeMounts[0].name"]


def test_an_error_of_the_job_is_reported_once_for_all_roles() -> None:
    found = problems(manifest(chief={}, volumeMounts=[{"name": "x", "mountPath": "/x"}]))
    assert [p.path for p in found] == ["spec.volumeMounts[0].name"]


def test_shared_checkpoints_are_accepted() -> None:
    job = parse(manifest(**EVALUATED, volumes=[CLAIM], volumeMounts=[{"name": "data", "mountPath": "/ckpt"}]))
    assert job.spec.volumes is not None
    assert job.spec.volumes[0].model_extra == {"persistentVolumeClaim": {"claimName": "c"}}
