"""The admission webhook: its rejections, its warnings, and that an internal error admits the job."""

import asyncio
import base64
import copy
import json
import ssl
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import aiohttp
import pytest
from support.factories import manifest
from support.ports import free_ports

from tfdist.validation import ValidationFailed, parse
from tfdist_operator.kube.client import ApiClient
from tfdist_operator.kube.errors import ConflictError
from tfdist_operator.webhook import admission  # CHECK
from tfdist_operator.webhook.admission import Review, review
from tfdist_operator.webhook.certificate_secret import CONFIGURATIONS, WebhookCertificate
from tfdist_operator.webhook.certificates import AUTHORITY, CERTIFICATE, renew_certificates
from tfdist_operator.webhook.server import WebhookServer

NOW = datetime(2030, 1, 1, tzinfo=UTC)
HOSTS = ("tfdist-webhook.tfdist-system.svc", "127.0.0.1")
STORED = "/api/v1/namespaces/tfdist-system/secrets/tfdist-webhook"
CONFIGURATION = f"{CONFIGURATIONS}/tfdist-webhook.tfdist-system"


def problems_of(job: dict[str, Any]) -> tuple[str, ...]:
    """Return what `tfdist validate` reports."""
    with pytest.raises(ValidationFailed) as caught:
        parse(job)
    return tuple(map(str, caught.value.problems))


def invalid(**spec: Any) -> dict[str, Any]:
    return manifest(template={"spec": {"containers": [{"name": "tensorflow", "imagePullPolicy": "Often"}]}}, **spec)


def test_a_valid_job_is_admitted_without_a_warning() -> None:
    assert review(manifest(), None, {}) == Review()


def test_an_invalid_job_is_rejected_with_the_messages_of_tfdist_validate() -> None:
    found = review(invalid(), None, {})
    assert found.problems == problems_of(invalid())
    assert "spec.template.spec.containers" in found.problems[0]


def test_a_name_that_the_api_server_still_generates_is_no_problem() -> None:
    job = manifest()
    job["metadata"] = {"generateName": "nightly-", "namespace": "team"}
    assert review(job, None, {}) == Review()


def flooded(fields: range) -> dict[str, Any]:
    return manifest(image="x", template={"spec": {f"no{i}": 1 for i in fields}})


def test_a_change_of_a_job_with_more_errors_than_are_reported_is_admitted() -> None:
    """Given 150 errors, of which an edit corrects one; then the one that is now listed was not added."""
    found = review(flooded(range(1, 150)), flooded(range(150)), {})
    assert (found.problems, len(found.warnings)) == ((), 101)


def test_a_change_that_adds_more_errors_than_are_reported_is_rejected() -> None:
    found = review(flooded(range(150)), flooded(range(1)), {})
    assert len(found.problems) == 100
    assert found.problems[-1] == "spec: and 50 more errors"
    assert found.warnings == ("spec.template.spec.no0: unknown field; PodSpec has no such field, remove it",)


def test_a_field_that_this_version_does_not_act_on_is_rejected() -> None:
    assert review(manifest(oomPolicy={}), None, {}).problems


def test_a_legal_but_probably_unintended_value_is_admitted_with_a_warning() -> None:
    found = review(manifest(template={"spec": {"hostNetwork": True}}), None, {})
    assert not found.problems
    assert [warning.partition(":")[0] for warning in found.warnings] == ["spec.template.spec.hostNetwork"]


def test_programs_of_the_installations_own_trainer_image_are_not_checked() -> None:
    job = manifest(training={"program": "other"})
    assert review(job, None, {}).problems
    assert review(job, None, {}, programs=False) == Review()


def test_pod_defaults_of_the_installation_are_applied_before_validation() -> None:
    defaults = {"spec": {"containers": [{"name": "sidecar", "image": "x"}]}}
    assert review(manifest(), None, defaults) == Review()


def test_a_job_that_was_invalid_before_can_be_suspended_and_its_author_is_warned() -> None:
    # given a job that has become invalid, when its spec changes elsewhere, then what was wrong before is a warning
    found = review(invalid(runPolicy={"suspend": True}), invalid(), {})
    assert not found.problems
    assert [warning[:200] for warning in found.warnings] == [text[:200] for text in problems_of(invalid())]


def test_a_change_is_rejected_for_what_it_adds() -> None:
    found = review(invalid(backoffLimit="x"), invalid(), {})
    assert len(found.problems) == 1
    assert "backoffLimit" in found.problems[0]


@pytest.mark.parametrize("spec", [None, 1, [], {"worker": 3}])
def test_a_manifest_of_any_shape_is_answered(spec: Any) -> None:
    assert review(manifest() | {"spec": spec}, None, {}).problems


def test_a_bug_in_validation_admits_with_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise RecursionError

    monkeypatch.setattr(admission, "parse", fails)
    found = review(manifest(), None, {})
    assert not found.problems
    assert "RecursionError" in found.warnings[0]


def test_missing_certificates_are_created_and_valid_ones_are_kept() -> None:
    made = renew_certificates({}, HOSTS, NOW)
    assert made is not None
    assert renew_certificates(made, HOSTS, NOW + timedelta(days=200)) is None


def test_a_server_certificate_is_renewed_months_before_its_end_by_the_same_authority() -> None:
    made = renew_certificates({}, HOSTS, NOW) or {}
    again = renew_certificates(made, HOSTS, NOW + timedelta(days=300)) or {}
    assert again[AUTHORITY] == made[AUTHORITY]
    assert again[CERTIFICATE] != made[CERTIFICATE]


def test_an_authority_is_renewed_years_before_its_end_and_the_old_one_is_trusted_meanwhile() -> None:
    made = renew_certificates({}, HOSTS, NOW) or {}
    again = renew_certificates(made, HOSTS, NOW + timedelta(days=3000)) or {}
    assert again[AUTHORITY].endswith(made[AUTHORITY])
    assert again[AUTHORITY] != made[AUTHORITY]


@pytest.mark.parametrize("key", ["ca.crt", "ca.key", "tls.crt", "tls.key"])
@pytest.mark.parametrize("content", [None, b"", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
def test_a_secret_that_holds_anything_else_is_made_again(key: str, content: bytes | None) -> None:
    made = dict(renew_certificates({}, HOSTS, NOW) or {})
    made.pop(key) if content is None else made.update({key: content})
    again = renew_certificates(made, HOSTS, NOW)
    assert again is not None
    assert renew_certificates(again, HOSTS, NOW) is None


def test_a_certificate_for_other_names_is_made_again() -> None:
    made = renew_certificates({}, HOSTS, NOW) or {}
    assert renew_certificates(made, ("another.tfdist-system.svc",), NOW) is not None


class Cluster:
    """The two objects that the webhook keeps, as the chart makes them."""

    def __init__(self) -> None:
        webhook = {"name": "validate.tfdist.dev", "clientConfig": {"service": {"name": "tfdist-webhook"}}}
        self.objects: dict[str, dict[str, Any]] = {
            STORED: {"metadata": {"name": "tfdist-webhook", "resourceVersion": "1"}},
            CONFIGURATION: {"metadata": {"resourceVersion": "1"}, "webhooks": [webhook]},
        }
        self.writes: list[str] = []

    async def request(self, method: str, path: str, *, body: Any = None, **_: object) -> dict[str, Any]:
        await asyncio.sleep(0)
        found = self.objects[path]
        if method == "GET":
            return copy.deepcopy(found)
        self.writes.append(f"{method} {path.split('/')[-2]}")
        version = body["metadata"]["resourceVersion"] if method == "PUT" else body[0]["value"]
        if version != found["metadata"]["resourceVersion"]:
            raise ConflictError(409, "Conflict", "")
        if method == "PUT":
            found = self.objects[path] = body
        else:
            (change,) = body[1:]
            assert change["path"] == "/webhooks/0/clientConfig/caBundle"
            found["webhooks"][0]["clientConfig"]["caBundle"] = change["value"]
        found["metadata"]["resourceVersion"] = str(int(version) + 1)
        return found

    def authority(self) -> bytes:
        """Return the CA bundle that the API server trusts for the webhook."""
        return base64.b64decode(self.objects[CONFIGURATION]["webhooks"][0]["clientConfig"]["caBundle"])

    def replica(self) -> WebhookCertificate:
        return WebhookCertificate(cast("ApiClient", self), STORED, CONFIGURATION, HOSTS)


async def ask(port: int, body: bytes, authority: bytes) -> Any:
    """POST to a webhook, verify its certificate, and return its answer or the status code."""
    context = ssl.create_default_context(cadata=authority.decode())
    url = f"https://127.0.0.1:{port}/"
    async with aiohttp.ClientSession() as session, session.post(url, data=body, ssl=context) as answer:
        return await answer.json() if answer.ok else answer.status


async def test_the_first_replica_makes_the_certificate_and_the_second_one_uses_it() -> None:
    cluster = Cluster()
    first, second = cluster.replica(), cluster.replica()
    await first.check()
    await second.check()
    await first.check()
    assert cluster.writes == ["PUT secrets", "PATCH validatingwebhookconfigurations"]
    assert first.ready.is_set()
    assert second.ready.is_set()


async def test_replicas_that_make_a_certificate_at_the_same_moment_agree_on_one() -> None:
    cluster = Cluster()
    results = await asyncio.gather(*(cluster.replica().check() for _ in range(3)), return_exceptions=True)
    assert sum(isinstance(result, ConflictError) for result in results) == 2
    await cluster.replica().check()
    assert cluster.writes.count("PATCH validatingwebhookconfigurations") == 1


async def test_an_authority_that_an_upgrade_has_removed_is_published_again() -> None:
    cluster = Cluster()
    replica = cluster.replica()
    await replica.check()
    del cluster.objects[CONFIGURATION]["webhooks"][0]["clientConfig"]["caBundle"]
    await replica.check()
    assert cluster.authority().startswith(b"-----BEGIN CERTIFICATE-----")


async def test_a_check_that_fails_is_repeated_and_nothing_is_served_before() -> None:
    cluster, slept = Cluster(), list[float]()
    secret = cluster.objects.pop(STORED)

    async def sleep(seconds: float) -> None:
        assert replica.ready.is_set() == bool(slept)
        slept.append(seconds)
        cluster.objects[STORED] = secret
        if len(slept) == 2:
            raise asyncio.CancelledError

    replica = WebhookCertificate(cast("ApiClient", cluster), STORED, CONFIGURATION, HOSTS, sleep)
    with pytest.raises(asyncio.CancelledError):
        await replica.run()
    assert slept[0] < 10 < slept[1]


async def test_a_renewed_certificate_is_served_without_closing_the_port() -> None:
    async def echo(asked: Any, **_: object) -> Any:
        return {"deep": asked["request"]["object"]}

    cluster = Cluster()
    replica = cluster.replica()
    await replica.check()
    (port,) = free_ports(1)
    serving = WebhookServer(port, replica.context, replica.ready)(echo)
    await anext(serving)
    review_of = b'{"request":{"uid":"u","object":%s}}'
    try:
        assert await ask(port, review_of % b"1", cluster.authority()) == {"deep": 1}
        assert await ask(port, b"no json", cluster.authority()) == 400
        deep = await ask(port, review_of % (b"[" * 1100 + b"]" * 1100), cluster.authority())
        assert "null" in json.dumps(deep)
        old = cluster.authority()
        cluster.objects[STORED]["data"] = {}
        await replica.check()
        assert cluster.authority() != old
        assert await ask(port, review_of % b"2", cluster.authority()) == {"deep": 2}
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await ask(port, review_of % b"2", old)
    finally:
        await serving.aclose()


async def test_a_review_that_fails_admits_with_a_warning() -> None:
    async def fails(*_: object, **__: object) -> Any:
        raise RuntimeError

    cluster = Cluster()
    replica = cluster.replica()
    await replica.check()
    (port,) = free_ports(1)
    serving = WebhookServer(port, replica.context, replica.ready)(fails)
    await anext(serving)
    try:
        answer = await ask(port, b'{"request":{"uid":"u"}}', cluster.authority())
    finally:
        await serving.aclose()
    assert (answer["response"]["uid"], answer["response"]["allowed"]) == ("u", True)
    assert answer["response"]["warnings"]
