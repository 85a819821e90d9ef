"""The schemas for editors: up to date, accept every manifest that is shipped, and reject unknown and wrong fields."""

import json
import pathlib
from collections.abc import Iterator
from typing import Any, Final

import pytest
from support import examples, samples
from support.factories import manifest
from support.stored_schema import problems
from support.sweeps import sweep_manifest

from tfdist.api.crd import KINDS, ResourceKind

Json = dict[str, Any]
ROOT: Final = pathlib.Path(__file__).resolve().parents[2]
FILES: Final = {kind.kind: ROOT / "crds" / f"{kind.kind.lower()}.schema.json" for kind in KINDS}
SCHEMAS: Final[dict[str, Json]] = {kind: json.loads(path.read_text(encoding="utf-8")) for kind, path in FILES.items()}
SCHEMA: Final = SCHEMAS["TFDistJob"]
OF_EACH_KIND = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
SHIPPED: Final = {
    **{f"crds/samples/{name}": samples.sample(name) for name in (*samples.SAMPLES, *samples.SWEEP_SAMPLES)},
    **{f"examples/{name}": examples.job(name) for name in examples.MANIFESTS},
}


def nodes(schema: Json) -> Iterator[Json]:
    yield schema
    for child in schema.get("properties", {}).values():
        yield from nodes(child)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from nodes(schema[key])


@pytest.mark.parametrize("name", SHIPPED)
def test_each_manifest_that_is_shipped_is_accepted(name: str) -> None:
    manifest = SHIPPED[name]
    assert list(problems(manifest, SCHEMAS[manifest["kind"]], "$")) == []


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


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"paralelism": 2}, "$.spec.paralelism"),
        ({"search": {"method": "Tpe"}}, "$.spec.search.method"),
        ({"parameters": [{"values": [1]}]}, "$.spec.parameters[0].name"),
        ({"template": {"wroker": {}}}, "$.spec.template.spec.wroker"),
    ],
)
def test_such_a_field_of_a_sweep_is_rejected(spec: Json, path: str) -> None:
    (found,) = problems(sweep_manifest(**spec), SCHEMAS["TFDistSweep"], "$")
    assert found.startswith(f"{path}: ")


@OF_EACH_KIND
def test_it_has_no_words_of_kubernetes_or_openapi_which_an_editor_ignores(kind: ResourceKind) -> None:
    for node in nodes(SCHEMAS[kind.kind]):
        assert not [key for key in node if key.startswith("x-") or key == "nullable"]
        assert not isinstance(node.get("exclusiveMinimum"), bool)


@OF_EACH_KIND
def test_every_object_with_fields_has_a_rule_for_other_fields_and_descriptions(kind: ResourceKind) -> None:
    schema = SCHEMAS[kind.kind]
    with_fields = [node for node in nodes(schema) if "properties" in node]
    assert len(with_fields) > 30
    for node in with_fields:
        assert node["additionalProperties"] in (False, {}), node
        assert all("description" in field or "enum" in field for field in node["properties"].values()), node
    assert schema["properties"]["spec"]["additionalProperties"] is False


def test_the_configuration_of_a_program_is_open() -> None:
    assert SCHEMA["properties"]["spec"]["properties"]["training"]["properties"]["config"]["additionalProperties"] == {}
