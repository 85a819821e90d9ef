"""CEL and Python say the same of jobs made by chance, and no job that is accepted ends the controller."""

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from support import controller as controllers
from support.api import JOBS, Api, Json, wait_for
from support.strategies import job, specs, spoiled_specs

from tfdist.api.cross_checks import SPEC_CHECKS
from tfdist.api.policies import CONTROLLER_NAME
from tfdist.validation import InvalidJob, Problem, parse
from tfdist_operator.policy.unsupported import unsupported

pytestmark = pytest.mark.integration

FUZZ = settings(max_examples=300, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
BATCH = 60
FEW = 2


@pytest.fixture(scope="module")
def shared(api: Api) -> Iterator[str]:
    name = f"test-{uuid.uuid4().hex[:8]}"
    api.do("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    yield name
    api.do("DELETE", f"/api/v1/namespaces/{name}")


def problems(manifest: Json) -> list[Problem]:
    try:
        parse(manifest)
    except InvalidJob as error:
        return error.problems
    return []


def refusal(api: Api, manifest: Json, **query: str) -> str:
    """What the API server has against a manifest; nothing where it takes it."""
    path = JOBS.format(ns=manifest["metadata"]["namespace"])
    answer = api.send("POST", path, manifest, fieldValidation="Strict", **query)
    assert answer.status_code in {201, 400, 422}, answer.text
    return "" if answer.ok else str(answer.json()["message"])


def test_what_the_validator_accepts_the_api_server_accepts(api: Api, shared: str) -> None:
    @FUZZ
    @given(specs() | spoiled_specs())
    def agree(spec: Json) -> None:
        manifest = job("fuzz", shared, spec)
        if not problems(manifest):
            assert refusal(api, manifest, dryRun="All") == ""

    agree()


def test_a_rule_that_the_api_server_tells_the_validator_tells_too(api: Api, shared: str) -> None:
    @FUZZ
    @given(specs() | spoiled_specs())
    def agree(spec: Json) -> None:
        manifest = job("fuzz", shared, spec)
        theirs = refusal(api, manifest, dryRun="All")
        ours = " ".join(p.message for p in problems(manifest))
        assert [check.message for check in SPEC_CHECKS if check.message in theirs and check.message not in ours] == []

    agree()


def few_replicas(spec: Json) -> Json:
    """Clamp what costs pods: the machine has only so many."""
    for part in ("chief", "worker", "ps", "evaluator", "evaluation"):
        fields = spec.get(part)
        if isinstance(fields, dict) and isinstance(fields.get("replicas"), int) and fields["replicas"] > FEW:
            fields["replicas"] = FEW
    return spec


def stored_jobs(api: Api, namespace: str) -> dict[str, Json]:
    """Make jobs by chance until enough of them are stored."""
    made: dict[str, Json] = {}

    @settings(FUZZ, max_examples=10 * BATCH)
    @given(specs() | spoiled_specs())
    def create(spec: Json) -> None:
        manifest = job(f"fuzz-{len(made)}", namespace, few_replicas(spec))
        if len(made) < BATCH and not refusal(api, manifest):
            made[manifest["metadata"]["name"]] = api.job(namespace, manifest["metadata"]["name"])

    create()
    return made


def wrong(stored: Json) -> list[Any]:
    """What makes a stored job Invalid: a mistake, or a feature without effect."""
    return problems(stored) or list(unsupported(parse(stored)))


def is_ours(stored: Json) -> bool:
    return stored["spec"]["runPolicy"].get("managedBy") in {None, CONTROLLER_NAME}


def phase(api: Api, namespace: str, name: str) -> str:
    """The phase of a job; one that has ended may have been deleted, as it asked for."""
    answer = api.send("GET", f"{JOBS.format(ns=namespace)}/{name}")
    return "deleted" if answer.status_code == 404 else str(answer.json().get("status", {}).get("phase", ""))


def test_the_controller_lives_and_tells_exactly_the_mistakes(
    api: Api, namespace: str, controller: controllers.Controller
) -> None:
    made = stored_jobs(api, namespace)
    ours = [name for name, stored in made.items() if is_ours(stored)]
    assert len(made) == BATCH
    wait_for("a phase of every job", lambda: all(phase(api, namespace, name) for name in ours), 120)
    invalid = {name for name in ours if phase(api, namespace, name) == "Invalid"}
    assert invalid == {name for name in ours if wrong(made[name])}
    assert controller.ready()
