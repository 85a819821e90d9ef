"""What the end of a replica means: the table, the job's own rules, and which of several failures was first."""

from typing import Any

import pytest
from support.factories import pod

from tfdist.api.policies import FailurePolicy
from tfdist.failure_classification import classify, root_cause
from tfdist.observed.pod import PodSummary


def policy(*rules: dict[str, Any]) -> FailurePolicy:
    return FailurePolicy.model_validate({"rules": list(rules)})


def codes(*values: int, operator: str = "In") -> dict[str, Any]:
    return {"operator": operator, "values": list(values)}


@pytest.mark.parametrize(
    ("code", "reason", "action"),
    [
        (42, "Preempted", "RestartWithoutCount"),
        *((code, "UserError", "FailJob") for code in (64, 65, 66, 78, 126, 127)),
        (71, "DeviceMissing", "AvoidNode"),
        (75, "PeerLost", "Restart"),
        *((code, "Crash", "Restart") for code in (134, 135, 136, 137, 139, 143)),
        *((code, "ApplicationError", "Restart") for code in (1, 2, 3, 70, 73, 74, 128, 255)),
        (None, "Disruption", "RestartWithoutCount"),
    ],
)
def test_an_exit_code_means(code: int | None, reason: str, action: str) -> None:
    meaning = classify(pod("worker-0", "F", exit_code=code))
    assert (meaning.reason, meaning.action) == (reason, action)


@pytest.mark.parametrize(
    ("seen", "reason"),
    [
        ({"exit_code": 137, "reason": "OOMKilled"}, "OutOfMemory"),
        ({"exit_code": 137, "disrupted": True}, "Disruption"),
        ({"exit_code": 143, "deleting": True}, "Preempted"),
        ({"exit_code": 143, "disrupted": True}, "Preempted"),
        ({"exit_code": 42, "deleting": True}, "Preempted"),
        ({"exit_code": 255, "reason": "Unknown"}, "Disruption"),
        ({"exit_code": 137, "reason": "ContainerStatusUnknown"}, "Disruption"),
        ({"exit_code": 1, "message": '{"reason":"OutOfMemory","message":"a process of it was killed"}'}, "OutOfMemory"),
        ({"exit_code": 1, "message": '{"reason":"Error","message":"OutOfMemory"}'}, "ApplicationError"),
        ({"exit_code": 1, "message": '{"OutOfMemory"'}, "ApplicationError"),
        ({"exit_code": 1, "disrupted": True}, "Disruption"),
    ],
)
def test_what_the_cluster_did_explains_more_than_the_exit_code(seen: dict[str, Any], reason: str) -> None:
    assert classify(pod("worker-0", "F", **seen)).reason == reason


OWN_LIMITS = (
    "Pod ephemeral local storage usage exceeds the total limit of containers 100Mi. ",
    'Container tensorflow exceeded its local ephemeral storage limit "1Gi". ',
    'Usage of EmptyDir volume "scratch" exceeds the limit "5Gi". ',
)
LOW_NODE = (
    "The node was low on resource: ephemeral-storage. Container tensorflow was using 5Gi, request is 0, "
    "has larger consumption of ephemeral-storage. "
)


@pytest.mark.parametrize(
    ("message", "reason", "action"),
    [
        *((text, "StorageLimitExceeded", "Restart") for text in OWN_LIMITS),
        (LOW_NODE, "Disruption", "RestartWithoutCount"),
    ],
)
def test_an_eviction_counts_if_the_pod_exceeded_a_limit_of_its_own(message: str, reason: str, action: str) -> None:
    evicted = pod("worker-0", "F", exit_code=137, disrupted=True, reason="Evicted", message=message)
    assert (classify(evicted).reason, classify(evicted).action) == (reason, action)


def test_the_first_rule_that_matches_wins() -> None:
    rules = policy({"action": "Ignore", "onExitCodes": codes(3)}, {"action": "FailJob", "onExitCodes": codes(3, 4)})
    assert classify(pod("worker-0", "F", exit_code=3), rules).action == "Ignore"
    assert classify(pod("worker-0", "F", exit_code=4), rules).action == "FailJob"
    assert classify(pod("worker-0", "F", exit_code=5), rules).action == "Restart"


def test_a_rule_goes_before_the_table_and_keeps_the_name_of_what_happened() -> None:
    rules = policy({"action": "Restart", "onExitCodes": codes(78)})
    meaning = classify(pod("worker-0", "F", exit_code=78), rules)
    assert (meaning.reason, meaning.action) == ("UserError", "Restart")


def test_a_rule_that_fails_the_job_gives_it_its_own_reason() -> None:
    rules = policy({"action": "FailJob", "onExitCodes": codes(3)})
    assert classify(pod("worker-0", "F", exit_code=3), rules).reason == "FailurePolicy"


@pytest.mark.parametrize(
    ("rule", "failed", "matches"),
    [
        ({"onExitCodes": codes(3), "roles": ["ps"]}, pod("worker-0", "F", exit_code=3), False),
        ({"onExitCodes": codes(3), "roles": ["ps", "worker"]}, pod("worker-0", "F", exit_code=3), True),
        ({"onExitCodes": codes(3, operator="NotIn")}, pod("worker-0", "F", exit_code=3), False),
        ({"onExitCodes": codes(3, operator="NotIn")}, pod("worker-0", "F", exit_code=4), True),
        ({"onExitCodes": codes(3, operator="NotIn")}, pod("worker-0", "F", exit_code=None), False),
        (
            {"onPodConditions": [{"type": "DisruptionTarget"}]},
            pod("worker-0", "F", conditions=("DisruptionTarget=True",)),
            True,
        ),
        (
            {"onPodConditions": [{"type": "DisruptionTarget", "status": "False"}]},
            pod("worker-0", "F", conditions=("DisruptionTarget=True",)),
            False,
        ),
        ({"onMessagePattern": "NaN.*loss"}, pod("worker-0", "F", message="found NaN in the loss"), True),
        ({"onMessagePattern": "^loss"}, pod("worker-0", "F", message="found NaN in the loss"), False),
        (
            {"onMessagePattern": "NaN", "onExitCodes": codes(3)},
            pod("worker-0", "F", exit_code=4, message="NaN"),
            False,
        ),
    ],
)
def test_a_rule_matches_when_all_that_it_names_is_met(rule: dict[str, Any], failed: PodSummary, matches: bool) -> None:
    action = classify(failed, policy({"action": "FailJob"} | rule)).action
    assert (action == "FailJob") == matches


def test_a_pattern_takes_time_that_is_linear_in_the_message() -> None:
    evil = policy({"action": "FailJob", "onMessagePattern": "(a+)+$"})
    assert classify(pod("worker-0", "F", exit_code=1, message="a" * 4000 + "b"), evil).action == "Restart"


def at(second: int, name: str, code: int | None, **fields: Any) -> PodSummary:
    return pod(name, "F", exit_code=code, finished_at=f"2030-01-02T03:04:{second:02}Z", **fields)


PEER_ERRORS = (
    "tensorflow.python.framework.errors_impl.UnavailableError: Collective ops is aborted by: Socket closed",
    "UnavailableError: Graph execution error:\n\nfailed to connect to all addresses; last error: UNKNOWN",
    "InternalError: Deadline Exceeded",
    "ConnectionResetError: [Errno 104] Connection reset by peer",
    "ConnectionRefusedError: [Errno 111] Connection refused",
    "RuntimeError: [../gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.7]:3319",
    "grpc._channel._InactiveRpcError: <_InactiveRpcError of RPC that terminated with: status = StatusCode.UNAVAILABLE",
    '{"reason": "Exit", "message": "AbortedError: Coordination service is down"}',
)
"""Ends of scripts that do not leave with exit code 75: of an image without the trainer."""
OWN_ENDS = {
    "out of memory, and not its peer": at(3, "worker-1", 137, reason="OOMKilled"),
    "a node that was lost, and not its peer": at(3, "worker-1", None, disrupted=True),
    "an eviction, and not its peer": at(3, "worker-1", 137, disrupted=True, reason="Evicted"),
    "a segmentation fault, and not its peer": at(3, "worker-1", 139),
    "an exception, and not its peer": at(3, "worker-1", 1, message="ValueError: shapes differ"),
    "an end without a word, and not its peer": at(3, "worker-1", 1),
}


@pytest.mark.parametrize(
    ("why", "failed", "cause"),
    [
        ("the first in time", [at(9, "worker-0", 1), at(3, "worker-1", 1)], "worker-1"),
        ("not the loss of a peer", [at(1, "worker-0", 75), at(3, "worker-1", 139)], "worker-1"),
        ("the loss of a peer, alone", [at(4, "worker-0", 75), at(3, "worker-1", 75)], "worker-1"),
        ("the gravest of a second", [at(3, "worker-0", 1), at(3, "worker-1", 78)], "worker-1"),
        *(
            (
                f"a kill, and not {peer_error}",
                [at(2, "worker-0", 1, message=peer_error), at(3, "worker-1", 137)],
                "worker-1",
            )
            for peer_error in PEER_ERRORS
        ),
        *((why, [at(2, "worker-0", 1, message=PEER_ERRORS[0]), end], "worker-1") for why, end in OWN_ENDS.items()),
        (
            "an abort because of the connection to a peer is not",
            [
                at(2, "worker-0", 134, message="terminate called\n  what():  [gloo/pair.cc:1] x\n"),
                at(3, "worker-1", 139),
            ],
            "worker-1",
        ),
        (
            "the first of errors that all may be the loss of a peer",
            [at(2, "worker-1", 1, message="ConnectionRefusedError: db"), at(3, "worker-0", 1, message=PEER_ERRORS[0])],
            "worker-1",
        ),
        (
            "a failed access to storage, whose exit code is known",
            [at(2, "worker-1", 74, message="Connection reset by peer"), at(3, "worker-0", 137)],
            "worker-1",
        ),
        (
            "a kill, whatever the log of the killed replica ends with",
            [at(3, "worker-1", 137, message=PEER_ERRORS[0]), at(2, "worker-0", 1, message=PEER_ERRORS[1])],
            "worker-1",
        ),
        ("the name decides at last", [at(3, "worker-1", 1), at(3, "worker-0", 1)], "worker-0"),
        (
            "a deletion is of the time it was asked for",
            [at(5, "worker-0", 1), at(9, "worker-1", 143, deleting=True, deleted_at="2030-01-02T03:04:02Z")],
            "worker-1",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_root_cause_is(why: str, failed: list[PodSummary], cause: str) -> None:
    assert root_cause(failed).name == f"fashion-{cause}", why
    assert root_cause(failed[::-1]).name == f"fashion-{cause}", "whatever the order in which they are seen"


def test_the_order_in_which_failures_were_seen_goes_before_the_clocks_of_nodes() -> None:
    first, second = at(9, "worker-0", 1), at(3, "worker-1", 1)
    assert root_cause([first, second], order=lambda p: [first.name, second.name].index(p.name)) is first
