"""Checks of a manifest: every mistake has one problem, with the path of its field and what to write instead."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel
from support.bad_manifests import BAD, Bad
from support.factories import EVALUATED, manifest

from tfdist.api.base import Check
from tfdist.api.crd import structural
from tfdist.api.v1 import TFDistJob, TFDistJobSpec
from tfdist.validation import InvalidJob, Problem, parse

CLAIM = {"name": "data", "persistentVolumeClaim": {"claimName": "c"}}
ROLES = ("chief", "worker", "ps", "evaluator")


def problems(bad: dict[str, Any]) -> list[Problem]:
    try:
        parse(bad)
    except InvalidJob as error:
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


def checks() -> list[Check]:
    return [check for model in dict.fromkeys(models(TFDistJob)) for check in getattr(model, "checks", ())]


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
def test_a_mistake_is_one_problem_that_names_its_path_and_the_remedy(bad: Bad) -> None:
    found = problems(bad.manifest)
    assert sorted(p.path for p in found) == sorted([bad.path, *bad.also])
    assert any(str(p).startswith(bad.says) for p in found), found


def test_the_table_of_mistakes_is_long_and_names_each_once() -> None:
    names = [bad.name for bad in BAD]
    assert len(names) >= 300
    assert len(names) == len(set(names))


@pytest.mark.parametrize("check", checks(), ids=lambda check: check.message)
def test_every_rule_between_fields_is_broken_by_a_mistake_of_the_table(check: Check) -> None:
    told = [problem for bad in BAD for problem in problems(bad.manifest)]
    assert any(p.message.startswith(check.message) and p.path.endswith(check.path) for p in told)


def test_every_field_is_refused_something_by_the_table() -> None:
    wrong = {re.sub(r"\[[^\]]*\]", "", bad.path) for bad in BAD}
    untested = [path for path in leaves(structural(TFDistJobSpec), "spec") if not _is_in(path, wrong)]
    assert untested == []


def _is_in(path: str, wrong: set[str]) -> bool:
    return any(f"{bad}.".startswith(f"{path}.") for bad in wrong)


def test_no_message_is_longer_than_three_lines_of_a_terminal() -> None:
    assert [p for bad in BAD for p in problems(bad.manifest) if len(p.message) > 240] == []


def test_all_mistakes_are_named_at_once() -> None:
    found = problems(manifest(wroker={}, strategy="x", worker={"replicas": 0}, env=[{"name": "TF_CONFIG"}]))
    assert {p.path for p in found} == {"spec.strategy", "spec.worker.replicas", "spec.wroker", "spec.env[0].name"}


def test_a_malformed_field_does_not_hide_what_is_wrong_in_a_template() -> None:
    found = problems(manifest(strategy="x", template={"spec": {"hostname": "a"}}))
    assert {p.path for p in found} == {"spec.strategy", "spec.template.spec.hostname"}


def test_a_mistake_in_one_role_is_not_told_of_another() -> None:
    found = problems(manifest(chief={}, worker={"volumeMounts": [{"name": "x", "mountPath": "/x"}]}))
    assert [p.path for p in found] == ["spec.worker.volumeMounts[0].name"]


def test_what_the_job_says_for_all_roles_is_wrong_once() -> None:
    found = problems(manifest(chief={}, volumeMounts=[{"name": "x", "mountPath": "/x"}]))
    assert [p.path for p in found] == ["spec.volumeMounts[0].name"]


def test_shared_checkpoints_are_accepted() -> None:
    job = parse(manifest(**EVALUATED, volumes=[CLAIM], volumeMounts=[{"name": "data", "mountPath": "/ckpt"}]))
    assert job.spec.volumes is not None
    assert job.spec.volumes[0].model_extra == {"persistentVolumeClaim": {"claimName": "c"}}
