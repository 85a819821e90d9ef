"""The TensorBoard of a job: its objects, its creation and its deletion."""

from typing import Any

import pytest
from support.factories import CHECKPOINT, Lifecycle, manifest, planned

from tfdist.desired.objects import ObjectName
from tfdist.desired.owned_kinds import DEPLOYMENT, NETWORK_POLICY, SERVICE
from tfdist.planner import Plan
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


def test_the_user_sets_the_log_directory_the_image_and_the_resources() -> None:
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


def test_it_passes_the_restricted_standard_for_any_image_of_the_job() -> None:
    made = pod(image="mine:1", command=["run"])["spec"]
    assert made["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    security = made["containers"][0]["securityContext"]
    assert security["readOnlyRootFilesystem"] is True
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert made["automountServiceAccountToken"] is False


def test_it_is_reachable_only_through_the_node_unless_the_network_policy_is_disabled() -> None:
    closed = rendered()["NetworkPolicy"]["spec"]
    assert closed["ingress"] == []
    assert closed["podSelector"]["matchLabels"].items() <= pod()["metadata"]["labels"].items()
    assert rendered()["Service"]["spec"].get("type", "ClusterIP") == "ClusterIP"
    assert "NetworkPolicy" not in rendered(networkPolicy="Disabled")


def test_its_pod_is_not_a_replica_of_the_job() -> None:
    labels = pod()["metadata"]["labels"]
    assert not {names.MANAGED_BY_LABEL, names.JOB_LABEL, names.JOB_UID_LABEL} & labels.keys()


def test_pod_defaults_of_the_installation_apply_to_it_too() -> None:
    defaults = {"spec": {"nodeSelector": {"pool": "cpu"}}}
    assert pod(defaults=defaults)["spec"]["nodeSelector"] == {"pool": "cpu"}


def test_it_is_created_with_the_pods_and_its_service_is_in_the_status() -> None:
    todo = planned(spec=BOARD)
    assert [made["kind"] for made in todo.tensorboard] == ["NetworkPolicy", "Service", "Deployment"]
    assert todo.status is not None
    assert todo.status["tensorBoard"] == {"service": "fashion-tensorboard"}


def removes_it(todo: Plan) -> bool:
    return {ObjectName(kind, "fashion-tensorboard") for kind in (DEPLOYMENT, SERVICE, NETWORK_POLICY)} <= {
        *todo.obsolete
    }


def test_every_plan_of_a_running_job_names_it() -> None:
    story = Lifecycle(BOTH, **BOARD)
    assert len(story.reconcile(BOTH, after=60).tensorboard) == 3
    assert not removes_it(story.reconcile(BOTH))


def test_it_is_deleted_when_the_job_no_longer_sets_it() -> None:
    story = Lifecycle(BOTH, **BOARD)
    story.spec = {"checkpoint": CHECKPOINT}
    assert removes_it(story.reconcile(BOTH))
    assert "tensorBoard" not in story.status


def test_it_is_deleted_when_an_ended_job_no_longer_sets_it() -> None:
    story = Lifecycle(BOTH, **BOARD)
    story.reconcile("worker-0:S worker-1:S")
    assert not removes_it(story.reconcile("worker-0:S worker-1:S", after=40))
    story.spec = {"checkpoint": CHECKPOINT}
    assert removes_it(story.reconcile("worker-0:S worker-1:S"))


def test_its_network_policy_is_deleted_when_the_job_disables_it() -> None:
    story = Lifecycle(BOTH, **BOARD)
    story.spec = BOARD | {"networkPolicy": "Disabled"}
    todo = story.reconcile(BOTH)
    assert [made["kind"] for made in todo.tensorboard] == ["Service", "Deployment"]
    assert ObjectName(NETWORK_POLICY, "fashion-tensorboard") in todo.obsolete


def test_it_outlives_the_job_for_its_own_time_to_live() -> None:
    story = Lifecycle(BOTH, **BOARD)
    story.reconcile("worker-0:S worker-1:S")
    assert story.status["phase"] == "Succeeded"
    waiting = story.reconcile("worker-0:S worker-1:S", after=40)
    assert not removes_it(waiting)
    assert waiting.requeue_after_seconds == pytest.approx(60)
    over = story.reconcile("worker-0:S worker-1:S", after=60)
    assert removes_it(over)
    assert over.requeue_after_seconds is None
    assert story.status["tensorBoard"] == {"service": "fashion-tensorboard"}


def test_a_job_without_tensorboard_creates_none() -> None:
    assert not planned(BOTH).tensorboard


def test_the_pod_runs_as_the_user_root_where_the_replicas_do() -> None:
    made = pod(template={"spec": {"securityContext": {"runAsUser": 0}}})["spec"]
    assert made["securityContext"] == {"runAsUser": 0, "seccompProfile": {"type": "RuntimeDefault"}}
