"""CEL and Python agree on jobs made by chance, and no accepted job ends the controller."""

import uuid
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, example, given, settings
from support import controller as controllers
from support.api import JOBS, Api, Json
from support.factories import TRAINING
from support.polling import wait_for
from support.strategies import job, specs, spoiled_specs

from tfdist.api.cross_field_rules import SPEC_RULES
from tfdist.api.features import PLANNED
from tfdist.api.policies import CONTROLLER_NAME
from tfdist.validation import FieldError, ValidationFailed, parse

pytestmark = pytest.mark.integration

FUZZ = settings(max_examples=300, suppress_health_check=list(HealthCheck))
ONE_WORKER_BY_DEFAULT: Json = {"training": TRAINING, "scheduling": {"minAvailable": 1}}
BATCH = 60
FEW = 2


@pytest.fixture(scope="module")
def shared(api: Api) -> Iterator[str]:
    name = f"test-{uuid.uuid4().hex[:8]}"
    api.do("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    yield name
    api.do("DELETE", f"/api/v1/namespaces/{name}")


def problems(manifest: Json) -> list[FieldError]:
    try:
        parse(manifest)
    except ValidationFailed as error:
        return error.problems
    return []


def rejection(api: Api, manifest: Json, **query: str) -> str:
    """Return the message with which the API server rejects a manifest; "" if it accepts it."""
    path = JOBS.format(ns=manifest["metadata"]["namespace"])
    answer = api.send("POST", path, manifest, fieldValidation="Strict", **query)
    assert answer.status_code in {201, 400, 422}, answer.text
    return "" if answer.ok else str(answer.json()["message"])


def test_what_the_validator_accepts_the_api_server_accepts(api: Api, shared: str) -> None:
    @FUZZ
    @given(specs() | spoiled_specs())
    @example(ONE_WORKER_BY_DEFAULT)
    @example(ONE_WORKER_BY_DEFAULT | {"chief": {"replicas": 0}})
    def agree(spec: Json) -> None:
        manifest = job("fuzz", shared, spec)
        if not problems(manifest):
            assert rejection(api, manifest, dryRun="All") == ""

    agree()


def test_a_rule_that_the_api_server_reports_the_validator_reports_too(api: Api, shared: str) -> None:
    @FUZZ
    @given(specs() | spoiled_specs())
    def agree(spec: Json) -> None:
        manifest = job("fuzz", shared, spec)
        theirs = rejection(api, manifest, dryRun="All")
        ours = " ".join(p.message for p in problems(manifest))
        rules = [*(check.message for check in SPEC_RULES), *(feature.message for feature in PLANNED)]
        assert [message for message in rules if message in theirs and message not in ours] == []

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
        if len(made) < BATCH and not rejection(api, manifest):
            made[manifest["metadata"]["name"]] = api.job(namespace, manifest["metadata"]["name"])

    create()
    return made


def is_ours(stored: Json) -> bool:
    return stored["spec"]["runPolicy"].get("managedBy") in {None, CONTROLLER_NAME}


def phase(api: Api, namespace: str, name: str) -> str:
    """The phase of a job; one that has ended may have been deleted, as it asked for."""
    answer = api.send("GET", f"{JOBS.format(ns=namespace)}/{name}")
    return "deleted" if answer.status_code == 404 else str(answer.json().get("status", {}).get("phase", ""))


def why_invalid(api: Api, namespace: str, name: str) -> str:
    """The reason of the condition Invalid if it is true; nothing elsewhere."""
    answer = api.send("GET", f"{JOBS.format(ns=namespace)}/{name}")
    conditions = answer.json().get("status", {}).get("conditions", ()) if answer.ok else ()
    return next((c["reason"] for c in conditions if c["type"] == "Invalid" and c["status"] == "True"), "")


@pytest.mark.long
def test_the_controller_survives_and_reports_exactly_the_invalid_jobs(
    api: Api, namespace: str, controller: controllers.Controller
) -> None:
    made = stored_jobs(api, namespace)
    ours = [name for name, stored in made.items() if is_ours(stored)]
    assert len(made) == BATCH
    wait_for("a phase of every job", lambda: all(phase(api, namespace, name) for name in ours), 120)
    reasons = {name: reason for name in ours if (reason := why_invalid(api, namespace, name))}
    invalid = {name for name in ours if problems(made[name])}
    assert {name for name, reason in reasons.items() if reason == "InvalidSpec"} == invalid
    # What the API server alone finds in the pods of the others is reported as that, and as nothing else.
    assert {reasons[name] for name in reasons.keys() - invalid} <= {"PodRejected"}
    assert controller.ready()
