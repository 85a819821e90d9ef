"""The pods of a valid job break no rule of the API server between fields: no default contradicts a template."""

from typing import Any

import pytest
from support.factories import manifest

from tfdist.desired.objects import objects
from tfdist.validation import ValidationFailed, parse, warnings
from tfdist.validation.errors import FieldError

Json = dict[str, Any]

IMAGE = "tfdist/trainer:test"


def job(main: Json | None = None, *, pod: Json | None = None, **spec: Any) -> Json:
    """Return a job whose container `tensorflow` has the fields `main`, in a pod with the fields `pod`."""
    containers = [{"name": "tensorflow"} | (main or {}), *(pod or {}).get("containers", ())]
    return manifest(template={"spec": (pod or {}) | {"containers": containers}}, **spec)


def pods(given: Json) -> list[Json]:
    return [made["spec"] for made in objects(parse(given), IMAGE) if made["kind"] == "Pod"]


def errors(given: Json, pod_defaults: Json | None = None) -> list[FieldError]:
    with pytest.raises(ValidationFailed) as failed:
        parse(given, pod_defaults=pod_defaults or {})
    return failed.value.problems


@pytest.mark.parametrize(
    "security",
    [{"privileged": True}, {"capabilities": {"add": ["SYS_ADMIN"]}}, {"capabilities": {"add": ["CAP_SYS_ADMIN"]}}],
    ids=["privileged", "SYS_ADMIN", "CAP_SYS_ADMIN"],
)
@pytest.mark.parametrize("spec", [{}, {"image": "mine:1"}], ids=["bundled trainer", "own image"])
def test_a_container_with_all_privileges_has_no_default_that_forbids_to_gain_them(security: Json, spec: Json) -> None:
    for pod in pods(job({"securityContext": security}, **spec)):
        assert "allowPrivilegeEscalation" not in pod["containers"][0]["securityContext"]


@pytest.mark.parametrize("security", [{"privileged": False}, {"capabilities": {"add": ["IPC_LOCK"]}}, {"runAsUser": 0}])
def test_every_other_container_cannot_gain_privileges(security: Json) -> None:
    for pod in pods(job({"securityContext": security})):
        assert pod["containers"][0]["securityContext"]["allowPrivilegeEscalation"] is False


def test_a_privileged_role_leaves_the_default_of_the_other_roles() -> None:
    chief = {"template": {"spec": {"containers": [{"name": "tensorflow", "securityContext": {"privileged": True}}]}}}
    first, *workers = pods(manifest(chief=chief))
    assert "allowPrivilegeEscalation" not in first["containers"][0]["securityContext"]
    assert all(w["containers"][0]["securityContext"]["allowPrivilegeEscalation"] is False for w in workers)


CONTRADICTIONS: dict[str, Json] = {
    "must not be false with privileged: true": {"privileged": True},
    "must not be false with capabilities.add: [CAP_SYS_ADMIN]": {"capabilities": {"add": ["CAP_SYS_ADMIN"]}},
}


@pytest.mark.parametrize("text", CONTRADICTIONS)
@pytest.mark.parametrize("kind", ["containers", "initContainers"])
def test_a_contradiction_of_the_user_is_an_error_of_its_field_in_every_container(text: str, kind: str) -> None:
    security = CONTRADICTIONS[text] | {"allowPrivilegeEscalation": False}
    other = {"name": "other", "image": "other:1", "securityContext": security}
    (error,) = errors(job(pod={kind: [other]}))
    place = {"containers": 1, "initContainers": 0}[kind]
    assert error.path == f"spec.template.spec.{kind}[{place}].securityContext.allowPrivilegeEscalation"
    assert error.message == f"Invalid value: false: {text}; remove one of the two"


def test_a_contradiction_between_levels_is_found_in_the_merged_pod() -> None:
    worker = {"template": {"spec": {"containers": [{"name": "tensorflow", "securityContext": {"privileged": True}}]}}}
    given = job({"securityContext": {"allowPrivilegeEscalation": False}}, worker={"replicas": 2} | worker)
    assert [error.path for error in errors(given)] == [
        "spec.worker.template.spec.containers[0].securityContext.privileged"
    ]


def test_a_contradiction_to_the_installation_names_the_field_of_the_job() -> None:
    main = {"name": "tensorflow", "securityContext": {"allowPrivilegeEscalation": False}}
    (error,) = errors(job({"securityContext": {"privileged": True}}), {"spec": {"containers": [main]}})
    assert error.path == "spec.template.spec.containers[0].securityContext.privileged"


@pytest.mark.parametrize("security", [{"allowPrivilegeEscalation": True, "privileged": True}, {"privileged": True}])
def test_a_privileged_container_may_gain_privileges(security: Json) -> None:
    sidecar = {"name": "other", "image": "other:1", "securityContext": security}
    assert pods(job(pod={"containers": [sidecar]}))


@pytest.mark.parametrize(
    "pod",
    [
        {"securityContext": {"runAsUser": 0}},
        {"initContainers": [{"name": "chown", "image": "busybox", "securityContext": {"runAsUser": 0}}]},
    ],
    ids=["pod", "init container"],
)
def test_a_pod_with_the_user_root_has_no_default_that_requires_another(pod: Json) -> None:
    assert all("runAsNonRoot" not in made["securityContext"] for made in pods(job(pod=pod)))


def test_the_container_that_fetches_the_code_runs_as_the_user_root_of_its_pod() -> None:
    git = {"repository": "https://example.com/a.git", "revision": "0" * 40}
    training = {"program": "a.b:C", "source": {"git": git}}
    (fetch,) = pods(job(pod={"securityContext": {"runAsUser": 0}}, training=training))[0]["initContainers"]
    assert fetch["securityContext"]["runAsNonRoot"] is False


def test_a_windows_pod_has_none_of_the_security_settings_of_linux() -> None:
    pod = pods(job(pod={"os": {"name": "windows"}}))[0]
    assert pod["securityContext"] == {}
    assert pod["containers"][0]["securityContext"] == {}


@pytest.mark.parametrize(
    ("ports", "place"),
    [
        ([{"name": "tfdist-report", "containerPort": 9000}], 0),
        ([{"name": "web", "containerPort": 80}, {"name": "web", "containerPort": 81}], 1),
        ([{"name": "tfdist-port", "containerPort": 3333}, {"name": "tfdist-port", "containerPort": 3334}], 1),
    ],
    ids=["the name of a default port", "two of the job", "two ports of TensorFlow"],
)
def test_two_ports_of_a_container_with_one_name_are_an_error(ports: list[Json], place: int) -> None:
    (error,) = errors(job({"ports": ports}))
    assert error.path == f"spec.template.spec.containers[0].ports[{place}].name"
    assert error.message.startswith(f'Duplicate value: "{ports[place]["name"]}": port ')


@pytest.mark.parametrize(("number", "owner"), [(8790, "progress report"), (2222, "container tensorflow")])
def test_a_sidecar_with_a_default_port_in_the_network_of_the_node_is_an_error(number: int, owner: str) -> None:
    sidecar = {"name": "other", "image": "other:1", "ports": [{"containerPort": number}]}
    (error,) = errors(job(pod={"hostNetwork": True, "containers": [sidecar]}))
    assert error.path == "spec.template.spec.containers[1].ports[0].containerPort"
    assert owner in error.message
    assert pods(job(pod={"containers": [sidecar]})), "in a network of its own nothing collides in the API server"


def test_two_ports_of_a_container_on_one_port_of_the_node_are_an_error() -> None:
    (error,) = errors(job({"ports": [{"containerPort": 80, "hostPort": 80}, {"containerPort": 81, "hostPort": 80}]}))
    assert error.path == "spec.template.spec.containers[0].ports[1].hostPort"
    assert (
        error.message
        == 'Duplicate value: "80": this port of the node is used by the container tensorflow; use another port'
    )
    assert pods(
        job(
            {"ports": [{"containerPort": 80, "hostPort": 80}, {"containerPort": 80, "hostPort": 80, "protocol": "UDP"}]}
        )
    )


def test_a_container_that_restarts_to_be_resized_is_an_error() -> None:
    policy = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
    (error,) = errors(job({"resizePolicy": policy}))
    assert error.path == "spec.template.spec.containers[0].resizePolicy[0].restartPolicy"
    assert pods(job({"resizePolicy": [policy[0] | {"restartPolicy": "NotRequired"}]}))


def test_a_pod_with_the_processes_of_the_node_cannot_share_its_own() -> None:
    (error,) = errors(job(pod={"hostPID": True, "shareProcessNamespace": True}))
    assert error.path == "spec.template.spec.shareProcessNamespace"
    assert pods(job(pod={"hostPID": True, "shareProcessNamespace": False}))


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"readinessProbe": {"tcpSocket": {"port": "tfjob-port"}}}, "readinessProbe.tcpSocket.port"),
        ({"lifecycle": {"preStop": {"httpGet": {"port": "web"}}}}, "lifecycle.preStop.httpGet.port"),
    ],
)
def test_a_probe_or_hook_of_a_port_that_the_container_does_not_have_is_a_warning(fields: Json, path: str) -> None:
    (warning,) = warnings(parse(job(fields)))
    assert warning.path == f"spec.template.spec.containers[0].{path}"
    assert "it has tfdist-port, tfdist-report; correct the name" in warning.message


@pytest.mark.parametrize("port", ["tfdist-port", "tfdist-report", "web", 9000, "9000"])
def test_a_probe_of_a_port_of_its_container_has_no_warning(port: Any) -> None:
    fields = {"ports": [{"name": "web", "containerPort": 80}], "livenessProbe": {"tcpSocket": {"port": port}}}
    assert warnings(parse(job(fields))) == []
