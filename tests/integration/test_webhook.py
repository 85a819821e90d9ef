"""The admission webhook between a real API server and the controller: `kubectl apply` reports what validate reports."""

import json
import pathlib
from collections.abc import Iterator

import pytest
from support.api import JOBS, Api, Json
from support.controller import ACCOUNT_NAME, RBAC, SYSTEM
from support.controller import controller as run_controller
from support.factories import manifest
from support.polling import wait_for
from support.ports import free_ports
from support.scripted_sweep import SWEEPS
from support.sweeps import sweep_manifest

from tfdist.validation import ValidationFailed, parse
from tfdist_operator import permissions

pytestmark = pytest.mark.integration

NAME = "tested-webhook"
CONFIGURATION = f"{NAME}.{SYSTEM}"
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
SECRETS = f"/api/v1/namespaces/{SYSTEM}/secrets"


def role(kind: str, name: str, rules: object) -> tuple[Json, Json]:
    """Return a role and what gives it to the controller's account."""
    meta = {"name": name} | ({"namespace": SYSTEM} if kind == "Role" else {})
    subject = {"kind": "ServiceAccount", "name": ACCOUNT_NAME, "namespace": SYSTEM}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
    version = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": meta}
    return version | {"kind": kind, "rules": rules}, version | {
        "kind": f"{kind}Binding",
        "roleRef": reference,
        "subjects": [subject],
    }


def webhook(name: str, version: str, plural: str, namespace: str, port: int) -> Json:
    """Return the webhook of one kind."""
    changes = "request.operation == 'CREATE' || object.spec != oldObject.spec"
    operations = ["CREATE", "UPDATE"]
    return {
        "name": name,
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": f"https://127.0.0.1:{port}/"},
        "failurePolicy": "Ignore",
        "sideEffects": "None",
        "timeoutSeconds": 5,
        "rules": [
            {"apiGroups": ["tfdist.dev"], "apiVersions": [version], "operations": operations, "resources": [plural]}
        ],
        "matchConditions": [{"name": "specification-changes", "expression": changes}],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
    }


@pytest.fixture
def port(api: Api, namespace: str) -> Iterator[int]:
    """What the chart makes with `webhook.enabled`, with the address of a port of this machine."""
    (free,) = free_ports(1)
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": NAME}, "type": "Opaque"}
    api.apply(secret, SECRETS)
    configuration = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": CONFIGURATION},
        "webhooks": [
            webhook("validate.tfdist.dev", "v1", "tfdistjobs", namespace, free),
            webhook("validate-sweep.tfdist.dev", "v1alpha1", "tfdistsweeps", namespace, free),
        ],
    }
    api.apply(configuration, CONFIGURATIONS)
    own, cluster = f"{RBAC}/namespaces/{SYSTEM}", RBAC
    rules = permissions.webhook_rules(NAME)
    for rbac_object, kind in zip(role("Role", NAME, rules), ("roles", "rolebindings"), strict=True):
        api.apply(rbac_object, f"{own}/{kind}")
    rules = permissions.webhook_configuration_rules(CONFIGURATION)
    for rbac_object, kind in zip(
        role("ClusterRole", CONFIGURATION, rules), ("clusterroles", "clusterrolebindings"), strict=True
    ):
        api.apply(rbac_object, f"{cluster}/{kind}")
    yield free
    api.do("DELETE", f"{CONFIGURATIONS}/{CONFIGURATION}")
    api.do("DELETE", f"{SECRETS}/{NAME}")


def new(namespace: str, name: str, **spec: object) -> Json:
    document = manifest(name, namespace, **spec)
    del document["metadata"]["uid"]
    return document


def invalid(namespace: str, name: str) -> Json:
    container = {"name": "tensorflow", "imagePullPolicy": "Often"}
    return new(namespace, name, template={"spec": {"containers": [container]}})


def messages(job: Json) -> str:
    """Return what `tfdist validate` reports of a job."""
    with pytest.raises(ValidationFailed) as caught:
        parse(job)
    return str(caught.value)


def test_jobs_are_validated_when_they_are_applied(api: Api, namespace: str, port: int, tmp_path: pathlib.Path) -> None:
    path = JOBS.format(ns=namespace)
    settings = {"TFDIST_NAMESPACE": namespace, "TFDIST_WEBHOOK": NAME, "TFDIST_WEBHOOK_PORT": str(port)}

    # given no controller, then an invalid job is stored: the webhook is down, and `Ignore` lets it pass
    api.do("POST", path, invalid(namespace, "before"))

    with run_controller(api, tmp_path, **settings):
        # when the webhook is served, then an invalid job is rejected with the messages of `tfdist validate`
        broken = invalid(namespace, "broken")
        wait_for("the webhook", lambda: api.send("POST", path, broken, dryRun="All").status_code == 422)
        answer = api.send("POST", path, broken)
        assert answer.status_code == 422
        assert messages(broken) in answer.json()["message"]
        assert "spec.template.spec.containers" in answer.json()["message"]

        # and so is one whose name the API server is to make, and one with a field that has no effect yet
        broken["metadata"] = {"generateName": "nightly-"}
        assert api.send("POST", path, broken).status_code == 422
        assert api.send("POST", path, new(namespace, "grown", oomPolicy={})).status_code == 422

        # and a valid one is admitted without a warning
        answer = api.send("POST", path, new(namespace, "sound"))
        assert answer.status_code == 201
        assert "Warning" not in answer.headers

        # and what was invalid before can be labelled, and suspended with a warning
        stored = f"{path}/before"
        answer = api.send("PATCH", stored, {"metadata": {"labels": {"team": "a"}}}, "merge-patch")
        assert (answer.status_code, "Warning" in answer.headers) == (200, False)
        answer = api.send("PATCH", stored, {"spec": {"runPolicy": {"suspend": True}}}, "merge-patch")
        assert answer.status_code == 200, answer.text
        assert messages(invalid(namespace, "before"))[:200] in answer.headers["Warning"].replace('\\"', '"')

        # and a sound one cannot be made invalid
        worse = {"spec": {"template": broken["spec"]["template"]}}
        assert api.send("PATCH", f"{path}/sound", worse, "merge-patch").status_code == 422

        # and a job nested deeper than any parser reads is rejected as well
        deep = new(namespace, "deep", training={"program": "image_classification", "config": {"deep": "DEEP"}})
        text = json.dumps(deep).replace('"DEEP"', '{"a":' * 1100 + "1" + "}" * 1100)
        answer = api.post_text(path, text)
        assert answer.status_code == 422
        assert "nested deeper than 64 levels" in answer.text


def test_sweeps_are_validated_when_they_are_applied(
    api: Api, namespace: str, port: int, tmp_path: pathlib.Path
) -> None:
    path = SWEEPS.format(ns=namespace)
    settings = {"TFDIST_NAMESPACE": namespace, "TFDIST_WEBHOOK": NAME, "TFDIST_WEBHOOK_PORT": str(port)}
    mixed = [{"name": "learningRate", "values": ["fast", 0.1]}]
    broken = new_sweep(namespace, "broken", parameters=mixed, search={"method": "Grid", "trials": 3})

    with run_controller(api, tmp_path, **settings):
        # when the webhook is served, then an invalid sweep is rejected with the messages of `tfdist validate`
        wait_for("the webhook", lambda: api.send("POST", path, broken, dryRun="All").status_code == 422)
        message = api.send("POST", path, broken).json()["message"]
        assert "spec.parameters[0].values" in message
        assert "spec.search.trials" in message

        # and an error in the template is reported at its field
        template = {"template": {"spec": {"containers": [{"name": "tensorflow", "imagePullPolicy": "Often"}]}}}
        answer = api.send("POST", path, new_sweep(namespace, "broken", template))
        assert "spec.template.spec.template.spec.containers" in answer.json()["message"]

        # and a valid one is admitted, with a warning about a loss that is to be maximized
        answer = api.send("POST", path, new_sweep(namespace, "sound", metric="loss", goal=None))
        assert answer.status_code == 201, answer.text
        assert "spec.goal" in answer.headers["Warning"]


def new_sweep(namespace: str, name: str, template: Json | None = None, **spec: object) -> Json:
    document = sweep_manifest(name, template, **spec)
    return document | {"metadata": {"name": name, "namespace": namespace}}
