"""The pod of one replica in one attempt."""

from dataclasses import dataclass
from typing import Any, Final

from tfdist import contract
from tfdist.api.v1 import CheckpointSpec, TFDistJob
from tfdist.contract import CheckpointSettings, ReplicaJob, Role, Training
from tfdist.render import names
from tfdist.render.gang import Gang, Member, addresses, tensorflow_role
from tfdist.render.merge import merge_by_key, merged_fields
from tfdist.render.owner import owner_reference
from tfdist.tf_config import tf_config


@dataclass(frozen=True, slots=True)
class Attempt:
    """Which start of a gang a pod belongs to.

    `number` counts the gang's starts from 0; `address_generation` is the value by which the job's Service
    selects the pods that may be found under the replicas' names.
    """

    number: int
    address_generation: int


DEFAULT_COMMAND: Final = ("python", "-m", "tfdist_trainer")

RESTRICTED_POD: Final = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
RESTRICTED_CONTAINER: Final = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}
_TEMPORARY: Final = "tfdist-tmp"
_TEMPORARY_PATH: Final = "/tmp"  # noqa: S108  a folder of the container, an emptyDir of its own

NODE_LOSS_SECONDS: Final = 30
"""A replica on a node that stops answering is given up after so long instead of Kubernetes' 300 s."""


def pod(job: TFDistJob, gang: Gang, member: Member, attempt: Attempt, default_image: str) -> dict[str, Any]:
    """Return the pod that runs `member` of `gang` in `attempt`; `default_image` is used where the job names none."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": names.pod_name(job.metadata.name, member.role, member.index, attempt.number),
            "namespace": job.metadata.namespace,
            "labels": _labels(job, member, attempt),
            "ownerReferences": [owner_reference(job)],
        },
        "spec": _pod_spec(job, gang, member, attempt, default_image),
    }


def replica_job(job: TFDistJob, gang: Gang, member: Member, attempt: int) -> ReplicaJob:
    """Return what `TFDIST_JOB` tells a replica."""
    spec, meta = job.spec, job.metadata
    evaluation = spec.evaluation.model_dump(mode="json", by_alias=True, exclude_none=True) if spec.evaluation else None
    return ReplicaJob(
        name=meta.name,
        namespace=meta.namespace,
        uid=meta.uid,
        strategy=spec.strategy,
        task=gang.task,
        role=member.role,
        index=member.index,
        attempt=attempt,
        replicas=gang.sizes(),
        addresses=addresses(job, gang, contract.TF_PORT),
        training=Training(program=spec.training.program, config=spec.training.config or {}) if spec.training else None,
        checkpoint=_checkpoint(job, spec.checkpoint) if spec.checkpoint else None,
        evaluation=evaluation,
    )


def _checkpoint(job: TFDistJob, spec: CheckpointSpec) -> CheckpointSettings:
    directory = spec.directory
    for name in ("name", "namespace", "uid"):
        directory = directory.replace(f"{{{name}}}", getattr(job.metadata, name))
    return CheckpointSettings(
        directory=directory,
        every_steps=spec.every_steps,
        every_seconds=spec.every_seconds,
        keep=spec.keep,
        restore=spec.restore,
    )


def _labels(job: TFDistJob, member: Member, attempt: Attempt) -> dict[str, str]:
    return names.job_labels(job) | {
        "app.kubernetes.io/component": str(member.role),
        names.ROLE_LABEL: str(member.role),
        names.INDEX_LABEL: str(member.index),
        names.ATTEMPT_LABEL: str(attempt.number),
        names.SERVED_LABEL: str(attempt.address_generation),
    }


def _pod_spec(job: TFDistJob, gang: Gang, member: Member, attempt: Attempt, default_image: str) -> dict[str, Any]:
    role_spec = job.spec.chief if member.role is Role.CHIEF else job.spec.worker
    fields = merged_fields(job.spec, role_spec)
    volumes = merge_by_key([{"name": _TEMPORARY, "emptyDir": {}}], fields.pop("volumes", ()), "name")
    return {
        "automountServiceAccountToken": False,
        "containers": [_container(fields, _environment(job, gang, member, attempt.number), default_image)],
        "enableServiceLinks": False,
        "hostname": names.hostname(member.role, member.index),
        "restartPolicy": "Never",
        "securityContext": RESTRICTED_POD,
        "subdomain": job.metadata.name,
        "tolerations": _node_loss_tolerations(),
        "volumes": volumes,
    }


def _container(fields: dict[str, Any], environment: list[dict[str, Any]], default_image: str) -> dict[str, Any]:
    mounts = merge_by_key(
        [{"name": _TEMPORARY, "mountPath": _TEMPORARY_PATH}], fields.pop("volumeMounts", ()), "mountPath"
    )
    container = {
        "name": contract.MAIN_CONTAINER,
        "image": default_image,
        "ports": [
            {"name": contract.TF_PORT_NAME, "containerPort": contract.TF_PORT},
            {"name": "tfdist-report", "containerPort": contract.REPORT_PORT},
        ],
        "securityContext": RESTRICTED_CONTAINER,
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    if "image" not in fields:
        container["command"] = list(DEFAULT_COMMAND)
    container |= fields
    container["env"] = [*fields.get("env", ()), *environment]
    container["volumeMounts"] = mounts
    return container


def _environment(job: TFDistJob, gang: Gang, member: Member, attempt: int) -> list[dict[str, Any]]:
    values = {
        contract.JOB_ENV: replica_job(job, gang, member, attempt).to_json(),
        contract.REPORT_PORT_ENV: str(contract.REPORT_PORT),
    }
    cluster = addresses(job, gang, contract.TF_PORT)
    config = tf_config(cluster, tensorflow_role(member.role), member.index)
    if config is not None:
        values[contract.TF_CONFIG_ENV] = config
    return [{"name": name, "value": value} for name, value in sorted(values.items())]


def _node_loss_tolerations() -> list[dict[str, Any]]:
    return [
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute"}
        | {"tolerationSeconds": NODE_LOSS_SECONDS}
        for key in ("not-ready", "unreachable")
    ]
