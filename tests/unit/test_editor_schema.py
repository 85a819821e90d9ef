"""The schema for editors: up to date, accepts every manifest that is shipped, and rejects unknown and wrong fields."""

import json
import pathlib
import runpy
from collections.abc import Iterator
from typing import Any, Final

import pytest
from support import examples, samples
from support.factories import manifest
from support.stored_schema import problems

Json = dict[str, Any]
ROOT: Final = pathlib.Path(__file__).resolve().parents[2]
FILE: Final = (ROOT / "crds" / "tfdistjob.schema.json").read_text(encoding="utf-8")
SCHEMA: Final[Json] = json.loads(FILE)
SHIPPED: Final = {
    **{f"crds/samples/{name}": samples.sample(name) for name in samples.SAMPLES},
    **{f"examples/{name}": examples.job(name) for name in examples.MANIFESTS},
}


def nodes(schema: Json) -> Iterator[Json]:
    yield schema
    for child in schema.get("properties", {}).values():
        yield from nodes(child)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from nodes(schema[key])


def test_the_file_is_up_to_date() -> None:
    assert runpy.run_path(str(ROOT / "crds" / "editor_schema.py"))["text"]() == FILE, "run 'make generate'"


@pytest.mark.parametrize("name", SHIPPED)
def test_each_manifest_that_is_shipped_is_accepted(name: str) -> None:
    assert list(problems(SHIPPED[name], SCHEMA, "$")) == []


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"wroker": {}}, "$.spec.wroker"),
        ({"strategy": "Mirorred"}, "$.spec.strategy"),
        ({"worker": {"replicas": "two"}}, "$.spec.worker.replicas"),
        ({"checkpoint": {"keep": 3}}, "$.spec.checkpoint.directory"),
    ],
)
def test_a_field_that_is_unknown_wrong_or_missing_is_rejected(spec: Json, path: str) -> None:
    (found,) = problems(manifest(**spec), SCHEMA, "$")
    assert found.startswith(f"{path}: ")


def test_it_has_no_words_of_kubernetes_or_openapi_which_an_editor_ignores() -> None:
    for node in nodes(SCHEMA):
        assert not [key for key in node if key.startswith("x-") or key == "nullable"]
        assert not isinstance(node.get("exclusiveMinimum"), bool)


def test_every_object_with_fields_has_a_rule_for_other_fields_and_descriptions() -> None:
    with_fields = [node for node in nodes(SCHEMA) if "properties" in node]
    assert len(with_fields) > 30
    for node in with_fields:
        assert node["additionalProperties"] in (False, {}), node
        assert all("description" in field or "enum" in field for field in node["properties"].values()), node
    assert SCHEMA["properties"]["spec"]["additionalProperties"] is False
    assert SCHEMA["properties"]["spec"]["properties"]["training"]["properties"]["config"]["additionalProperties"] == {}
