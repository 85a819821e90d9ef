"""The generated CRDs: structural, small, and the same as the committed files."""

import json
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest

from tfdist.api.crd import JOB, KINDS, SWEEP, ResourceKind, crd
from tfdist.api.sweep_status import BestTrial, TFDistSweepStatus, TrialCounts

ROOT = pathlib.Path(__file__).resolve().parents[2]
OF_EACH_KIND = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
CLIENT_SIDE_APPLY_BYTES = 262_144
"""Largest size of all annotations of an object: `kubectl apply` stores the manifest in one, as JSON."""


def nodes(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield schema
    for child in schema.get("properties", {}).values():
        yield from nodes(child)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from nodes(schema[key])


def root(kind: ResourceKind) -> dict[str, Any]:
    schema: dict[str, Any] = crd(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


@OF_EACH_KIND
def test_the_repository_has_one_copy_in_the_chart(kind: ResourceKind) -> None:
    name = f"{kind.plural}.yaml"
    assert (ROOT / "crds" / name).resolve() == ROOT / "helm/tfdist-operator/files" / name


@OF_EACH_KIND
def test_it_is_small_enough_to_be_applied_by_kubectl(kind: ResourceKind) -> None:
    assert (ROOT / "crds" / f"{kind.plural}.yaml").stat().st_size < 200_000
    assert len(json.dumps(crd(kind))) < CLIENT_SIDE_APPLY_BYTES / 2


@OF_EACH_KIND
def test_its_schema_is_structural(kind: ResourceKind) -> None:
    for node in nodes(root(kind)):
        assert not {"$ref", "$defs", "anyOf", "title", "const"} & node.keys(), node
        untyped = {"x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields"}
        assert "type" in node or untyped & node.keys(), node
        assert node.get("default", 0) is not None, node


@OF_EACH_KIND
def test_every_field_of_the_specification_is_described(kind: ResourceKind) -> None:
    spec = root(kind)["properties"]["spec"]
    bare = [name for node in nodes(spec) for name, f in node.get("properties", {}).items() if "description" not in f]
    assert bare == []


@OF_EACH_KIND
def test_every_default_is_in_the_description_because_kubectl_explain_shows_it_only_there(kind: ResourceKind) -> None:
    with_default = [node for node in nodes(root(kind)) if not isinstance(node.get("default", {}), dict)]
    assert len(with_default) > 20
    for node in with_default:
        assert node["description"].lower().endswith(f" defaults to {node['default']}.".lower())


def status_and_spec(kind: ResourceKind) -> Iterator[tuple[str, dict[str, Any]]]:
    for part in ("spec", "status"):
        yield from named_nodes(root(kind)["properties"][part], part)


def named_nodes(schema: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from named_nodes(child, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from named_nodes(schema[key], f"{path}[]")


@OF_EACH_KIND
def test_every_text_list_and_map_is_bounded(kind: ResourceKind) -> None:
    bounds = {"string": "maxLength", "array": "maxItems"}
    unbounded = []
    for path, node in status_and_spec(kind):
        bound = bounds.get(node.get("type", ""))
        if bound and bound not in node and "enum" not in node:
            unbounded.append(path)
        is_map = "additionalProperties" in node or "x-kubernetes-preserve-unknown-fields" in node
        if is_map and node.get("type") == "object" and "maxProperties" not in node:
            unbounded.append(path)
    assert unbounded == []


@OF_EACH_KIND
def test_every_time_of_the_status_is_a_date(kind: ResourceKind) -> None:
    times = [(path, node) for path, node in status_and_spec(kind) if node.get("description", "").startswith("Time ")]
    assert len(times) > 3
    assert [path for path, node in times if node.get("format") != "date-time"] == []


def test_jobs_can_be_selected_by_phase_and_scaled_by_a_selector() -> None:
    version = crd(JOB)["spec"]["versions"][0]
    assert version["selectableFields"] == [{"jsonPath": ".status.phase"}]
    assert version["subresources"]["scale"]["labelSelectorPath"] == ".status.selector"
    assert root(JOB)["properties"]["status"]["properties"]["selector"]["type"] == "string"


@OF_EACH_KIND
def test_every_column_is_a_field_of_its_type(kind: ResourceKind) -> None:
    fields = {path.replace("[]", "[0]"): node for path, node in status_and_spec(kind)}
    columns = [column for column in kind.columns if column[2].startswith((".spec", ".status"))]
    assert [name for name, of_type, path, *_ in columns if fields[path[1:]]["type"] != of_type] == []


def test_the_columns_of_a_sweep_show_its_trials_and_the_best_one() -> None:
    shown = [(name, path) for name, _, path, wide, _ in SWEEP.columns if not wide]
    assert [name for name, _ in shown] == ["Phase", "Trials", "Running", "Stopped", "Best", "Best-Job", "Age"]
    best = BestTrial(trial=4, job="fashion-lr-4", parameters={}, value=0.91, step=900)
    status = TFDistSweepStatus(trials=TrialCounts(total=40), best=[best]).model_dump(by_alias=True)
    assert (status["best"][0]["value"], status["best"][0]["job"]) == (0.91, "fashion-lr-4")
