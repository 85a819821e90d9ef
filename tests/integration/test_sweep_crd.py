"""The API server stores sweeps whole, fills in defaults, and rejects an invalid one with the message of the models."""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel
from support.api import Api, Json
from support.samples import SWEEP_SAMPLES, sample
from support.sweeps import FULL, NOW, STATUS, sweep_manifest

from tfdist.api.base import CrossFieldRule
from tfdist.api.crd import SWEEP, crd
from tfdist.api.features import PLANNED
from tfdist.api.sweep import SearchSpec, SweepEarlyStopping, TFDistSweep
from tfdist.api.sweep_parameters import ParameterRange, SweepParameter
from tfdist.api.sweep_status import TFDistSweepStatus
from tfdist.api.transitions import SWEEP_TRANSITION_RULES

pytestmark = pytest.mark.integration

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
IMMUTABLE = "is immutable once the sweep has started"


@pytest.fixture
def sweeps(namespace: str) -> str:
    return f"/apis/{SWEEP.api_version}/namespaces/{namespace}/{SWEEP.plural}"


def manifest(name: str = "fashion-lr", template: Json | None = None, **spec: Any) -> Json:
    return sweep_manifest(name, template, **spec) | {"metadata": {"name": name}}


def rejection(api: Api, sweeps: str, given: Json) -> str:
    answer = api.send("POST", sweeps, given, dryRun="All", fieldValidation="Strict")
    assert answer.status_code == 422, answer.text
    return str(answer.json()["message"])


def within(part: Any, whole: Any) -> bool:
    """Whether a value has all of another one, with more fields in its objects at most."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(
            key in whole and within(value, whole[key]) for key, value in part.items()
        )
    if isinstance(part, list):
        return isinstance(whole, list) and len(part) == len(whole) and all(map(within, part, whole))
    return bool(part == whole)


def test_the_definition_is_accepted_without_a_condition_about_its_schema(api: Api) -> None:
    conditions = api.do("GET", f"{DEFINITIONS}/{SWEEP.plural}.tfdist.dev")["status"]["conditions"]
    assert not [c for c in conditions if c["type"] in {"NonStructuralSchema", "KubernetesAPIApprovalPolicyConformant"}]


def test_a_manifest_with_every_field_is_stored_whole(api: Api, sweeps: str) -> None:
    given = manifest(**FULL)
    assert given["spec"].keys() == {field.alias for field in SWEEP.spec.model_fields.values()}
    api.do("POST", sweeps, given, fieldValidation="Strict")
    stored = api.do("GET", f"{sweeps}/fashion-lr")
    assert within(given, stored)
    assert TFDistSweep.model_validate({key: stored[key] for key in given}).spec.early_stopping


def test_values_of_every_kind_are_stored_whole(api: Api, sweeps: str) -> None:
    values: list[Any] = [1, 0.5, "a", True, [64, "wide"], {"units": {"first": 3}}]
    parameters = [{"name": f"p{number}", "values": [value]} for number, value in enumerate(values)]
    search = {"method": "List", "list": [{"p0": 1, "p4": [1, 2.5], "p5": {"units": {}}}]}
    given = manifest(parameters=parameters, search=search)
    api.do("POST", sweeps, given, fieldValidation="Strict")
    assert within(given, api.do("GET", f"{sweeps}/fashion-lr"))


def test_a_status_with_every_field_is_stored_whole(api: Api, sweeps: str) -> None:
    assert STATUS.keys() == {field.alias for field in TFDistSweepStatus.model_fields.values()}
    api.do("POST", sweeps, manifest())
    api.do("PATCH", f"{sweeps}/fashion-lr/status", {"status": STATUS}, "merge-patch", fieldValidation="Strict")
    assert api.do("GET", f"{sweeps}/fashion-lr")["status"] == STATUS


@pytest.mark.parametrize("name", SWEEP_SAMPLES)
def test_the_samples_are_accepted(api: Api, sweeps: str, name: str) -> None:
    api.do("POST", sweeps, sample(name), dryRun="All", fieldValidation="Strict")


def test_defaults_are_those_of_the_models_also_in_the_template(api: Api, sweeps: str) -> None:
    given = manifest(earlyStopping={"method": "Median", "minSteps": 10})
    stored = api.do("POST", sweeps, given)["spec"]
    model = TFDistSweep.model_validate(given).spec.model_dump(mode="json", by_alias=True, exclude_none=True)
    assert stored == model


def test_kubectl_get_shows_the_trials_and_the_best_one(api: Api, sweeps: str) -> None:
    api.do("POST", sweeps, manifest("new"))
    api.do("POST", sweeps, manifest("running"))
    api.do("PATCH", f"{sweeps}/running/status", {"status": STATUS}, "merge-patch")
    rows = table(api, sweeps)
    shown = ("Phase", "Trials", "Running", "Stopped", "Best", "Best-Job", "Succeeded", "Failed")
    assert [rows["running"][name] for name in shown] == ["Running", 40, 2, 3, 0.91, "fashion-lr-2", 1, 0]
    assert [rows["new"][name] for name in shown] == [None] * len(shown)


def table(api: Api, sweeps: str) -> dict[str, Json]:
    """Return the cells that `kubectl get -o wide` shows, by the name of the sweep."""
    found = api.table(sweeps)
    names = [column["name"] for column in found["columnDefinitions"]]
    rows = [dict(zip(names, row["cells"], strict=True)) for row in found["rows"]]
    return {row["Name"]: row for row in rows}


def test_sweeps_have_a_short_name_and_a_subresource_for_the_status(api: Api) -> None:
    found = {each["name"]: each for each in api.do("GET", f"/apis/{SWEEP.api_version}")["resources"]}
    assert found["tfdistsweeps"]["shortNames"] == ["tfs"]
    assert found.keys() == {"tfdistsweeps", "tfdistsweeps/status"}


@dataclass(frozen=True)
class Broken:
    """A sweep that breaks one rule between fields, and the object whose rule it is."""

    model: type[BaseModel]
    number: int
    spec: Json
    path: str

    @property
    def rule(self) -> CrossFieldRule:
        rules: tuple[CrossFieldRule, ...] = self.model.cross_field_rules  # type: ignore[attr-defined]
        return rules[self.number]

    def __str__(self) -> str:
        return self.rule.message


def one(**fields: Any) -> Json:
    return {"parameters": [{"name": "rate"} | fields]}


def stopping(**fields: Any) -> Json:
    return {"earlyStopping": {"minSteps": 10} | fields}


RANGE = "spec.parameters[0].range"
BROKEN = (
    Broken(SearchSpec, 0, {"search": {"method": "Grid", "list": [{"rate": 1}]}}, "spec.search.list"),
    Broken(SweepEarlyStopping, 0, stopping(method="Median", reduction=2), "spec.earlyStopping.method"),
    Broken(SweepEarlyStopping, 1, stopping(method="Asha", minTrials=2), "spec.earlyStopping.minTrials"),
    Broken(SweepEarlyStopping, 2, stopping(method="Median", resume=True), "spec.earlyStopping.resume"),
    Broken(ParameterRange, 0, one(range={"min": 1, "max": 1}), f"{RANGE}.min"),
    Broken(ParameterRange, 1, one(range={"min": 0, "max": 1, "scale": "Log"}), f"{RANGE}.min"),
    Broken(ParameterRange, 2, one(range={"min": 0, "max": 1, "step": 0}), f"{RANGE}.step"),
    Broken(SweepParameter, 0, one(values=[1], range={"min": 0, "max": 1}), "spec.parameters[0]"),
    Broken(SweepParameter, 1, one(values=[1], field="runtime.seed", env="RATE"), "spec.parameters[0]"),
)


def rules(model: type[BaseModel]) -> Iterator[CrossFieldRule]:
    """Every rule of a model and of the models in it; those of the job's template are tested with jobs."""
    yield from getattr(model, "cross_field_rules", ())
    for name, field in model.model_fields.items():
        if name != "template":
            yield from (rule for inner in models_in(field.annotation) for rule in rules(inner))


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in getattr(annotation, "__args__", ()):
        yield from models_in(inner)


def test_every_rule_between_fields_has_a_case_above() -> None:
    assert set(rules(SWEEP.spec)) == {broken.rule for broken in BROKEN}


@pytest.mark.parametrize("broken", [each for each in BROKEN if each.rule.on_server], ids=str)
def test_a_rule_between_fields_rejects_with_the_message_of_the_model(api: Api, sweeps: str, broken: Broken) -> None:
    message = rejection(api, sweeps, manifest(**broken.spec))
    assert f"{broken.path}: Invalid value: " in message
    assert broken.rule.message in message


@pytest.mark.parametrize("broken", [each for each in BROKEN if not each.rule.on_server], ids=str)
def test_a_rule_about_values_of_any_type_is_not_on_the_server_which_cannot_compile_it(
    api: Api, sweeps: str, broken: Broken
) -> None:
    api.do("POST", sweeps, manifest(**broken.spec), dryRun="All", fieldValidation="Strict")
    made = copy.deepcopy(crd(SWEEP))
    made["metadata"]["name"] = "tfdistsweeps.later.tfdist.dev"
    made["spec"]["group"] = "later.tfdist.dev"
    made["spec"]["names"] |= {"shortNames": [], "categories": []}
    spec = made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    node = spec["search"] if broken.model is SearchSpec else spec["parameters"]["items"]
    node.setdefault("x-kubernetes-validations", []).append(broken.rule.schema_entry())
    answer = api.send("POST", DEFINITIONS, made, dryRun="All")
    assert answer.status_code == 422, "CEL has the field now: the rule can be on the server"
    assert "undefined field" in answer.json()["message"]


def test_a_rule_of_the_job_rejects_the_template_with_its_path(api: Api, sweeps: str) -> None:
    message = rejection(api, sweeps, manifest(template={"ps": {"replicas": 1}}))
    assert "spec.template.spec.ps: Invalid value: " in message
    assert "ps requires strategy ParameterServer or Custom; change strategy, or remove ps" in message


def test_a_planned_field_of_the_job_is_rejected_in_the_template_too(api: Api, sweeps: str) -> None:
    message = rejection(api, sweeps, manifest(template={"elastic": {"minWorkers": 1}}))
    assert f"spec.template.spec.elastic: Forbidden: {PLANNED[0].message}" in message


@pytest.mark.parametrize("name", ["a" * 42, "1a", "a.b"])
def test_a_name_from_which_no_job_can_be_named_is_rejected(api: Api, sweeps: str, name: str) -> None:
    assert SWEEP.name_rule["message"] in rejection(api, sweeps, manifest(name))


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (one(values=[1]) | {"parameters": [{"name": "a", "values": [1]}] * 2}, "Duplicate value"),
        ({"parameters": [{"name": f"p{number}", "values": [1]} for number in range(33)]}, "Too many"),
        ({"parallelism": 501}, "should be less than or equal to 500"),
        ({"search": {"method": "Tpe"}}, "Unsupported value"),
        ({"template": None}, "Required value"),
    ],
    ids=["two parameters of a name", "33 parameters", "parallelism", "method", "template"],
)
def test_a_bound_or_a_type_rejects(api: Api, sweeps: str, spec: Json, text: str) -> None:
    given = manifest()
    given["spec"] = {key: value for key, value in (given["spec"] | spec).items() if value is not None}
    assert text in rejection(api, sweeps, given)


REVERSED = list(reversed(manifest()["spec"]["parameters"]))
LIST: Json = {"search": {"method": "List", "list": [{"learningRate": 0.1}]}}
OTHER_LIST: Json = {"search": {"list": [{"learningRate": 0.2}]}}
FIXED: tuple[tuple[str, Json, Json], ...] = (
    ("metric", {}, {"metric": "loss"}),
    ("goal", {"goal": "Minimize"}, {"goal": None}),
    ("parameters", {}, {"parameters": REVERSED}),
    ("parameters", {}, {"parameters": REVERSED[:2]}),
    ("parameters", one(values=[1, 2]), one(values=[1, 3])),
    ("parameters", one(range={"min": 0, "max": 1}), one(range={"min": 0, "max": 2})),
    ("search.method", {}, {"search": {"method": "Grid"}}),
    ("search.seed", {}, {"search": {"seed": 8}}),
    ("search.list", LIST, OTHER_LIST),
    ("template", {}, {"template": {"spec": {"image": "mine:2"}}}),
    ("template", {}, {"template": {"spec": {"training": {"config": {"epochs": 2}}}}}),
)
FREE: tuple[Json, ...] = (
    {"parallelism": 9, "keepBest": 2, "maxFailedTrials": 9, "cleanTrials": "None", "targetValue": 0.5},
    {"search": {"trials": 60}},
    {"suspend": True},
    {"earlyStopping": {"method": "Median", "minSteps": 100}},
)


def create(api: Api, sweeps: str, spec: Json, *, started: bool) -> None:
    api.do("POST", sweeps, manifest(**spec))
    if started:
        api.do("PATCH", f"{sweeps}/fashion-lr/status", {"status": {"startTime": NOW}}, "merge-patch")


@pytest.mark.parametrize(("field", "spec", "patch"), FIXED)
def test_after_the_start_what_trials_are_made_of_is_immutable(
    api: Api, sweeps: str, field: str, spec: Json, patch: Json
) -> None:
    create(api, sweeps, spec, started=True)
    answer = api.send("PATCH", f"{sweeps}/fashion-lr", {"spec": patch}, "merge-patch")
    assert answer.status_code == 422, answer.text
    assert f"spec.{field}: Forbidden: {field} {IMMUTABLE}" in answer.json()["message"]


@pytest.mark.parametrize(("field", "spec", "patch"), FIXED)
def test_before_the_start_it_may_change(api: Api, sweeps: str, field: str, spec: Json, patch: Json) -> None:
    create(api, sweeps, spec, started=False)
    answer = api.send("PATCH", f"{sweeps}/fashion-lr", {"spec": patch}, "merge-patch")
    assert answer.ok, f"{field}: {answer.text}"


@pytest.mark.parametrize("patch", FREE, ids=str)
@pytest.mark.parametrize("spec", [{}, one(values=[1, 2])], ids=["ranges", "values"])
def test_after_the_start_the_rest_may_change(api: Api, sweeps: str, spec: Json, patch: Json) -> None:
    create(api, sweeps, spec, started=True)
    answer = api.send("PATCH", f"{sweeps}/fashion-lr", {"spec": patch}, "merge-patch")
    assert answer.ok, answer.text


def test_every_rule_of_transitions_rejects_a_change_above() -> None:
    assert {rule["fieldPath"] for rule in SWEEP_TRANSITION_RULES} == {f".spec.{field}" for field, *_ in FIXED}
