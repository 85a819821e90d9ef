"""The objects of a job: cluster spec, names, merging, security."""

import json
from typing import Any

import pytest
from support.factories import EVALUATED, manifest

from tfdist.contract import ReplicaJob
from tfdist.render.command import DEFAULT_COMMAND
from tfdist.render.gang import Gang, gangs
from tfdist.render.installation import Installation
from tfdist.render.pod import Attempt, pod
from tfdist.tf_config import tf_config
from tfdist.validation import parse


def rendered(gang_index: int = 0, attempt: int = 0, **spec: Any) -> list[dict[str, Any]]:
    job = parse(manifest(**spec))
    gang: Gang = gangs(job)[gang_index]
    return [pod(job, gang, m, Attempt(attempt, attempt), Installation("tfdist/trainer:test")) for m in gang.members]


def env(made: dict[str, Any]) -> dict[str, str]:
    return {e["name"]: e.get("value") for e in made["spec"]["containers"][0]["env"]}


def tf(made: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(env(made)["TF_CONFIG"])
    return found


def test_every_member_sees_the_same_cluster_and_its_own_task() -> None:
    pods = rendered(chief={}, worker={"replicas": 2})
    assert [tf(p)["task"] for p in pods] == [
        {"type": "chief", "index": 0},
        {"type": "worker", "index": 0},
        {"type": "worker", "index": 1},
    ]
    assert {json.dumps(tf(p)["cluster"]) for p in pods} == {
        json.dumps(
            {
                "chief": ["chief-0.fashion.team.svc:2222"],
                "worker": ["worker-0.fashion.team.svc:2222", "worker-1.fashion.team.svc:2222"],
            }
        )
    }


def test_addresses_stay_the_same_in_a_later_attempt_and_pod_names_do_not() -> None:
    first, second = rendered(), rendered(attempt=1)
    assert [tf(p) for p in first] == [tf(p) for p in second]
    assert [p["metadata"]["name"] for p in second] == ["fashion-worker-0-r1", "fashion-worker-1-r1"]
    assert [p["spec"]["hostname"] for p in second] == ["worker-0", "worker-1"]


def test_a_single_replica_gets_no_tf_config_at_all() -> None:
    (only,) = rendered(worker={"replicas": 1})
    assert "TF_CONFIG" not in env(only)


def test_tensorflow_sees_an_evaluation_gang_as_workers_only() -> None:
    pods = rendered(1, **EVALUATED)
    assert list(tf(pods[0])["cluster"]) == ["worker"]
    assert tf(pods[1])["task"] == {"type": "worker", "index": 1}
    assert pods[0]["spec"]["hostname"] == "evaluation-0"


def test_the_replica_parses_the_job_that_it_gets() -> None:
    settings = ReplicaJob.model_validate_json(env(rendered(1, attempt=2, **EVALUATED)[1])["TFDIST_JOB"])
    assert (settings.role, settings.index, settings.attempt, settings.task) == ("evaluation", 1, 2, "Evaluate")
    assert settings.checkpoint is not None
    assert settings.checkpoint.directory == "/ckpt/fashion"


def test_equal_jobs_have_byte_equal_pods() -> None:
    assert json.dumps(rendered(**EVALUATED)) == json.dumps(rendered(**EVALUATED))


def test_a_role_overrides_the_job_and_lists_merge_by_key() -> None:
    both = [{"name": "A", "value": "job"}, {"name": "B", "value": "job"}]
    (made,) = rendered(env=both, image="one", worker={"env": [{"name": "B", "value": "role"}], "image": "two"})
    container = made["spec"]["containers"][0]
    assert container["image"] == "two"
    assert (env(made)["A"], env(made)["B"]) == ("job", "role")


def test_an_image_of_the_user_keeps_its_entry_point() -> None:
    assert "command" not in rendered(image="mine")[0]["spec"]["containers"][0]
    assert rendered()[0]["spec"]["containers"][0]["command"] == list(DEFAULT_COMMAND)


def test_pods_meet_the_restricted_standard_and_get_no_token() -> None:
    spec = rendered()[0]["spec"]
    assert spec["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    assert spec["containers"][0]["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert spec["automountServiceAccountToken"] is False


def test_a_replica_that_is_not_in_the_cluster_spec_is_rejected() -> None:
    with pytest.raises(ValueError, match="worker-2 is not a member"):
        tf_config({"worker": ["a:1", "b:1"]}, "worker", 2)


@pytest.mark.parametrize(("spec", "expected"), [(EVALUATED, "Latest"), ({"task": "Evaluate"}, "checkpoint-7")])
def test_evaluation_after_training_does_not_restore_the_checkpoint_that_training_restored(
    spec: dict[str, Any], expected: str
) -> None:
    begins = EVALUATED["checkpoint"] | {"restore": "checkpoint-7"}
    settings = ReplicaJob.model_validate_json(env(rendered(-1, **spec | {"checkpoint": begins})[0])["TFDIST_JOB"])
    assert settings.checkpoint is not None
    assert settings.checkpoint.restore == expected


SCRIPT: dict[str, Any] = {"without": ["training"], "command": ["python", "train.py"]}


@pytest.mark.parametrize(
    ("spec", "level"),
    [
        pytest.param(SCRIPT, "1", id="a script: no INFO messages of TensorFlow, but warnings and errors"),
        pytest.param(SCRIPT | {"env": [{"name": "TF_CPP_MIN_LOG_LEVEL", "value": "0"}]}, "0", id="set by the job"),
        pytest.param(
            SCRIPT | {"worker": {"env": [{"name": "TF_CPP_MIN_LOG_LEVEL", "value": "3"}]}}, "3", id="by a role"
        ),
        pytest.param(SCRIPT | {"envFrom": [{"configMapRef": {"name": "c"}}]}, None, id="a ConfigMap may set it"),
        pytest.param({}, None, id="the trainer sets it, by runtime.logDevicePlacement"),
    ],
)
def test_the_log_level_of_tensorflow_is_a_default(spec: dict[str, Any], level: str | None) -> None:
    assert env(rendered(**spec)[0]).get("TF_CPP_MIN_LOG_LEVEL") == level
