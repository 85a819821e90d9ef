"""The generated CRD: structural, small, and the same as the committed file."""

import pathlib
from collections.abc import Iterator
from typing import Any

import yaml

from tfdist.api.crd import crd

ROOT = pathlib.Path(__file__).resolve().parents[2]


def nodes(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield schema
    for child in schema.get("properties", {}).values():
        yield from nodes(child)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from nodes(schema[key])


def root() -> dict[str, Any]:
    schema: dict[str, Any] = crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def test_the_committed_file_is_generated_from_the_models() -> None:
    assert yaml.safe_load((ROOT / "crds" / "tfdistjobs.yaml").read_text()) == crd()


def test_it_is_small_enough_to_be_applied_by_kubectl() -> None:
    assert (ROOT / "crds" / "tfdistjobs.yaml").stat().st_size < 200_000


def test_its_schema_is_structural() -> None:
    for node in nodes(root()):
        assert not {"$ref", "$defs", "anyOf", "title", "const"} & node.keys(), node
        assert "type" in node or node.get("x-kubernetes-int-or-string"), node
        assert node.get("default", 0) is not None, node


def test_every_field_of_the_specification_is_described() -> None:
    spec = root()["properties"]["spec"]
    bare = [name for node in nodes(spec) for name, f in node.get("properties", {}).items() if "description" not in f]
    assert bare == []


def test_every_default_is_in_the_description_because_kubectl_explain_shows_it_only_there() -> None:
    with_default = [node for node in nodes(root()) if not isinstance(node.get("default", {}), dict)]
    assert len(with_default) > 20
    for node in with_default:
        assert node["description"].lower().endswith(f" defaults to {node['default']}.".lower())


def status_and_spec() -> Iterator[tuple[str, dict[str, Any]]]:
    for part in ("spec", "status"):
        yield from named_nodes(root()["properties"][part], part)


def named_nodes(schema: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from named_nodes(child, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from named_nodes(schema[key], f"{path}[]")


def test_every_text_list_and_map_is_bounded() -> None:
    bounds = {"string": "maxLength", "array": "maxItems"}
    unbounded = []
    for path, node in status_and_spec():
        bound = bounds.get(node.get("type", ""))
        if bound and bound not in node and "enum" not in node:
            unbounded.append(path)
        if "additionalProperties" in node and "maxProperties" not in node:
            unbounded.append(path)
    assert unbounded == []


def test_every_time_of_the_status_is_a_date() -> None:
    times = [(path, node) for path, node in status_and_spec() if node.get("description", "").startswith("Time ")]
    assert len(times) > 5
    assert [path for path, node in times if node.get("format") != "date-time"] == []


def test_jobs_can_be_selected_by_phase_and_scaled_by_a_selector() -> None:
    version = crd()["spec"]["versions"][0]
    assert version["selectableFields"] == [{"jsonPath": ".status.phase"}]
    assert version["subresources"]["scale"]["labelSelectorPath"] == ".status.selector"
    assert root()["properties"]["status"]["properties"]["selector"]["type"] == "string"
