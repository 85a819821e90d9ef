"""`TF_CONFIG` and `TFDIST_JOB` together: rank, size, and contradictions."""

import json
from typing import Any

import pytest

from tfdist_trainer.environment import read_member
from tfdist_trainer.errors import ConfigurationError

JOB: dict[str, Any] = {
    "name": "j",
    "namespace": "d",
    "uid": "u",
    "strategy": "MultiWorkerMirrored",
    "role": "worker",
    "index": 1,
    "replicas": {"worker": 2},
}
WORKERS = ["w0:2222", "w1:2222"]


def environ(cluster: Any, task: Any) -> dict[str, str]:
    return {"TFDIST_JOB": json.dumps(JOB), "TF_CONFIG": json.dumps({"cluster": cluster, "task": task})}


@pytest.mark.parametrize(
    ("cluster", "task", "rank", "addresses"),
    [
        ({"worker": WORKERS}, ("worker", 0), 0, WORKERS),
        ({"worker": WORKERS}, ("worker", 1), 1, WORKERS),
        ({"worker": WORKERS, "chief": ["c:2222"]}, ("chief", 0), 0, ["c:2222", *WORKERS]),
        ({"worker": WORKERS, "chief": ["c:2222"]}, ("worker", 0), 1, ["c:2222", *WORKERS]),
        ({"worker": WORKERS, "chief": ["c:2222"]}, ("worker", 1), 2, ["c:2222", *WORKERS]),
    ],
)
def test_ranks_are_those_of_tensorflow(cluster: Any, task: tuple[str, int], rank: int, addresses: list[str]) -> None:
    member = read_member(environ(cluster, {"type": task[0], "index": task[1]}))
    assert (member.rank, list(member.addresses), member.size) == (rank, addresses, len(addresses))
    assert member.is_chief == (rank == 0)


def test_a_single_replica_needs_no_cluster() -> None:
    member = read_member({"TFDIST_JOB": json.dumps(JOB | {"replicas": {"worker": 1}})})
    assert (member.rank, member.size, member.addresses) == (0, 1, ())


def test_the_evaluator_does_not_join_the_training_cluster() -> None:
    environ = {"TFDIST_JOB": json.dumps(JOB | {"role": "evaluator", "task": "Evaluate", "replicas": {"evaluator": 1}})}
    cluster = {"worker": WORKERS, "evaluator": ["e:2222"]}
    environ["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": {"type": "evaluator", "index": 0}})
    member = read_member(environ)
    assert (member.rank, member.size, member.addresses) == (0, 1, ())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "leave it out"),
        ("[]", "not a cluster spec"),
        ('{"cluster": {"worker": ["a:1"]}}', "not a cluster spec"),
        ('{"cluster": {"ps": ["a:1"]}, "task": {"type": "ps", "index": 0}}', "role 'ps' cannot be"),
        ('{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 1}}', "worker 1 is not in its own"),
        ('{"cluster": {"worker": ["a:1"]}, "task": {"type": "chief", "index": 0}}', "chief 0 is not in its own"),
    ],
)
def test_a_cluster_that_cannot_work_is_rejected(text: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        read_member({"TFDIST_JOB": json.dumps(JOB), "TF_CONFIG": text})
