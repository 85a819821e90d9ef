"""A job's TensorBoard: what it is made of, when it is made, and when it goes."""

from typing import Any

import pytest
from support.factories import CHECKPOINT, Story, manifest, planned

from tfdist.render import names
from tfdist.render.installation import Installation
from tfdist.render.tensorboard import tensorboard
from tfdist.validation import parse

BOARD: dict[str, Any] = {"tensorBoard": {"ttlSecondsAfterFinished": 100}, "checkpoint": CHECKPOINT}
BOTH = "worker-0:R worker-1:R"


def rendered(*, defaults: dict[str, Any] | None = None, board: dict[str, Any] | None = None, **spec: Any) -> Any:
    """Return the objects by their kind."""
    job = parse(manifest(**(BOARD | spec | {"tensorBoard": board or {}})))
    assert job.spec.tensor_board is not None
    installation = Installation("tfdist/trainer:test", pod_defaults=defaults or {})
    return {made["kind"]: made for made in tensorboard(job, job.spec.tensor_board, installation)}


def pod(**spec: Any) -> Any:
    return rendered(**spec)["Deployment"]["spec"]["template"]


def container(**spec: Any) -> Any:
    (found,) = pod(**spec)["spec"]["containers"]
    return found


def test_it_reads_the_job_s_checkpoints_and_can_write_none() -> None:
    assert "--logdir=/ckpt/fashion" in container()["args"]
    mount, temporary = container()["volumeMounts"]
    assert mount == {"name": "tfdist-checkpoint", "mountPath": "/ckpt", "readOnly": True}
    assert temporary["mountPath"] == "/tmp"
    volumes = {volume["name"]: volume for volume in pod()["spec"]["volumes"]}
    assert volumes["tfdist-checkpoint"]["persistentVolumeClaim"] == {"claimName": "ckpt"}


def test_the_user_says_where_the_logs_are_and_what_shows_them() -> None:
    board = {"logDirectory": "s3://logs/{namespace}/{name}", "image": "mine:1", "resources": {"limits": {"cpu": "1"}}}
    made = container(board=board, env=[{"name": "AWS_REGION", "value": "eu"}])
    assert "--logdir=s3://logs/team/fashion" in made["args"]
    assert made["image"] == "mine:1"
    assert made["resources"] == {"limits": {"cpu": "1"}}
    assert made["env"] == [{"name": "AWS_REGION", "value": "eu"}]


def test_it_takes_none_of_the_job_s_devices() -> None:
    assert "nvidia.com/gpu" not in str(
        container(worker={"replicas": 2, "resources": {"limits": {"nvidia.com/gpu": 1}}})
    )


def test_it_passes_the_restricted_standard_whatever_the_job_s_image() -> None:
    made = pod(image="mine:1", command=["run"])["spec"]
    assert made["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    security = made["containers"][0]["securityContext"]
    assert security["readOnlyRootFilesystem"] is True
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert made["automountServiceAccountToken"] is False


def test_nobody_reaches_it_but_through_the_node_unless_the_job_is_open_to_all() -> None:
    closed = rendered()["NetworkPolicy"]["spec"]
    assert closed["ingress"] == []
    assert closed["podSelector"]["matchLabels"].items() <= pod()["metadata"]["labels"].items()
    assert rendered()["Service"]["spec"].get("type", "ClusterIP") == "ClusterIP"
    assert "NetworkPolicy" not in rendered(networkPolicy="Disabled")


def test_its_pod_is_not_taken_for_one_of_the_job_s_replicas() -> None:
    labels = pod()["metadata"]["labels"]
    assert not {names.MANAGED_BY_LABEL, names.JOB_LABEL, names.JOB_UID_LABEL} & labels.keys()


def test_what_the_installation_sets_for_all_pods_holds_for_it_too() -> None:
    defaults = {"spec": {"nodeSelector": {"pool": "cpu"}}}
    assert pod(defaults=defaults)["spec"]["nodeSelector"] == {"pool": "cpu"}


def test_it_is_made_beside_the_pods_and_the_status_tells_its_service() -> None:
    todo = planned(spec=BOARD)
    assert [made["kind"] for made in todo.tensorboard] == ["NetworkPolicy", "Service", "Deployment"]
    assert todo.status is not None
    assert todo.status["tensorBoard"] == {"service": "fashion-tensorboard"}


@pytest.mark.parametrize(("made_for", "again"), [(1, False), (None, True), (0, True)])
def test_it_is_made_once_for_each_specification_by_each_controller(made_for: int | None, *, again: bool) -> None:
    assert bool(planned(BOTH, spec=BOARD, tensorboard_of=made_for).tensorboard) is again


def test_it_goes_when_the_job_wants_none_any_more() -> None:
    story = Story(BOTH, **BOARD)
    story.spec = {"checkpoint": CHECKPOINT}
    assert story.look(BOTH).remove_tensorboard
    assert "tensorBoard" not in story.status
    assert not story.look(BOTH).remove_tensorboard


def test_it_outlives_the_job_for_its_own_time_and_goes_once() -> None:
    story = Story(BOTH, **BOARD)
    story.look("worker-0:S worker-1:S")
    assert story.status["phase"] == "Succeeded"
    waiting = story.look("worker-0:S worker-1:S", after=40, swept=True)
    assert not waiting.remove_tensorboard
    assert waiting.requeue_after_seconds == pytest.approx(60)
    assert story.look("worker-0:S worker-1:S", after=60).remove_tensorboard
    assert not story.look("worker-0:S worker-1:S", tensorboard_removed=True).remove_tensorboard
    assert story.status["tensorBoard"] == {"service": "fashion-tensorboard"}


def test_a_job_without_one_costs_nothing() -> None:
    todo = planned(BOTH)
    assert not todo.tensorboard
    assert not todo.remove_tensorboard
