"""Whom the NetworkPolicy of a job admits, by Kubernetes' own rules for policies (networking.k8s.io/v1)."""

import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from support.factories import CHECKPOINT, EVALUATED, INSTALLATION, NOW, UID, manifest, view

from tfdist import contract
from tfdist.desired.objects import objects
from tfdist.planner import plan
from tfdist.render.gang import gangs
from tfdist.render.installation import Installation
from tfdist.render.network_policy import network_policy
from tfdist.validation import parse
from tfdist_operator import config

CONTROLLER = {"app.kubernetes.io/name": "tfdist-controller", "pod-template-hash": "1a"}
EPHEMERAL = 43567
PORTS = (1, 22, contract.TF_PORT, contract.TF_PORT + 1, 5000, contract.REPORT_PORT, contract.LAUNCH_PORT, EPHEMERAL)


@dataclass(frozen=True)
class Pod:
    """A pod that tries to connect."""

    namespace: str
    labels: dict[str, str] = field(default_factory=dict)


def policy(installation: Installation | None = None, **spec: Any) -> dict[str, Any]:
    made: dict[str, Any] = network_policy(parse(manifest(**spec)), installation or Installation("trainer:1"))["spec"]
    return made


def selects(selector: dict[str, Any] | None, labels: dict[str, str]) -> bool:
    """Return whether a LabelSelector with matchLabels alone selects labels; an absent one selects nothing."""
    return selector is not None and selector.get("matchLabels", {}).items() <= labels.items()


def admits(policy: dict[str, Any], pod: Pod, port: int, protocol: str = "TCP", own: str = "team") -> bool:
    """Return whether the pods that a policy selects, in the namespace `own`, can be reached by another pod."""

    def is_peer(peer: dict[str, Any]) -> bool:
        there = {"kubernetes.io/metadata.name": pod.namespace}
        of_space = selects(peer["namespaceSelector"], there) if "namespaceSelector" in peer else pod.namespace == own
        return of_space and ("podSelector" not in peer or selects(peer["podSelector"], pod.labels))

    def is_port(given: dict[str, Any]) -> bool:
        last = given.get("endPort", given.get("port", port))
        return bool(given.get("protocol", "TCP") == protocol and given.get("port", port) <= port <= last)

    return any(
        any(map(is_peer, rule.get("from", ()) or [{"namespaceSelector": {}}]))
        and any(map(is_port, rule.get("ports", ()) or [{"protocol": protocol}]))
        for rule in policy["ingress"]
    )


@pytest.mark.parametrize("spec", [{}, {"runPolicy": {"standby": True}, "checkpoint": CHECKPOINT}], ids=["", "standby"])
@pytest.mark.parametrize("protocol", ["TCP", "UDP", "SCTP"])
def test_a_stranger_reaches_no_port_wherever_it_is(spec: dict[str, Any], protocol: str) -> None:
    for stranger in (Pod("team"), Pod("other"), Pod("tfdist-system"), Pod("other", CONTROLLER)):
        assert not [port for port in PORTS if admits(policy(**spec), stranger, port, protocol)]


def test_the_pods_of_all_gangs_reach_each_other_on_every_port_and_protocol() -> None:
    given = {**EVALUATED, "evaluation": {"mode": "Both"}}
    made = objects(parse(manifest(**given)), "trainer:1")
    pods = [one["metadata"]["labels"] for one in made if one["kind"] == "Pod"]
    assert len(pods) == sum(len(gang.members) for gang in gangs(parse(manifest(**given)))) == 5
    for labels in pods:
        assert selects(policy(**given)["podSelector"], labels)
        for protocol in ("TCP", "UDP"):
            assert all(admits(policy(**given), Pod("team", labels), port, protocol) for port in PORTS)


def test_a_pod_of_another_namespace_with_the_job_s_label_is_a_stranger() -> None:
    assert not admits(policy(), Pod("other", {"tfdist.dev/job-uid": UID}), EPHEMERAL)


def test_of_the_controller_s_namespace_its_pods_alone_reach_the_report_port_and_nothing_else() -> None:
    controller, neighbour = Pod("tfdist-system", CONTROLLER), Pod("tfdist-system", {"app.kubernetes.io/name": "other"})
    assert [port for port in PORTS if admits(policy(), controller, port)] == [contract.REPORT_PORT]
    assert not admits(policy(), neighbour, contract.REPORT_PORT)


def test_the_planner_writes_the_installation_s_namespace_and_labels_into_the_policy() -> None:
    installation = Installation("trainer:1", namespace="training", controller_labels={"app": "ours"})
    made = plan(view(), NOW, installation).objects[-1]["spec"]
    assert admits(made, Pod("training", {"app": "ours"}), contract.REPORT_PORT)
    assert not admits(made, Pod("tfdist-system", CONTROLLER), contract.REPORT_PORT)
    assert plan(view(), NOW, INSTALLATION).objects[-1]["spec"] == policy()


def test_only_the_ingress_that_the_author_allows_is_allowed() -> None:
    prometheus = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
    rules = [{"from": [prometheus], "ports": [{"port": 9000}, {"port": 9100, "endPort": 9102}]}]
    made = policy(networkPolicyIngress=rules)
    assert admits(made, Pod("monitoring"), 9000)
    assert [port for port in range(9099, 9105) if admits(made, Pod("monitoring"), port)] == [9100, 9101, 9102]
    assert not admits(made, Pod("monitoring"), 9000, "UDP")
    assert not admits(made, Pod("team"), 9000)


def test_rules_reach_the_policy_in_kubernetes_own_form() -> None:
    expressions = [{"key": "app", "operator": "In", "values": ["a"]}]
    rules = [
        {"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}]},
        {"from": [{"podSelector": {"matchExpressions": expressions}}], "ports": [{"port": "web", "protocol": "TCP"}]},
        {},
    ]
    assert policy(networkPolicyIngress=rules)["ingress"][2:] == rules


def test_a_job_may_have_no_policy_at_all() -> None:
    assert "NetworkPolicy" not in [o["kind"] for o in objects(parse(manifest(networkPolicy="Disabled")), "trainer:1")]


def labels_of(**given: str) -> Any:
    return config.from_environment({"TFDIST_TRAINER_IMAGE": "trainer:1"} | given).installation.controller_labels


def test_the_controller_s_labels_come_from_its_environment() -> None:
    assert labels_of(TFDIST_CONTROLLER_LABELS='{"app": "ours"}') == {"app": "ours"}


def test_without_the_labels_those_of_an_older_chart_are_taken_and_never_none() -> None:
    assert labels_of() == {"app.kubernetes.io/name": "tfdist-controller"}
    assert labels_of(TFDIST_LEASE_NAME="training") == {"app.kubernetes.io/name": "training"}


@pytest.mark.parametrize("given", ["{}", "[]", "app=ours", '{"app": 1}', '{"a b": "c"}', json.dumps({"a": "b c"})])
def test_labels_that_would_select_everything_or_nothing_are_rejected(given: str) -> None:
    with pytest.raises(SystemExit, match=r"TFDIST_CONTROLLER_LABELS=.*must be labels as JSON, such as"):
        labels_of(TFDIST_CONTROLLER_LABELS=given)
