"""The default pod template of a role, which every other level overrides, and the tolerations that bound a node loss."""

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, Final

from tfdist import contract
from tfdist.api.v1 import TFDistJob
from tfdist.contract import Role
from tfdist.podspec import merge
from tfdist.podspec.resources import nvidia_gpus
from tfdist.render import names, requirements, source
from tfdist.render.command import DEFAULT_COMMAND
from tfdist.render.installation import Installation
from tfdist.render.security import default_security, pod_runs_as_root
from tfdist.render.template import main_container, tensorflow_port

NODE_LOSS_SECONDS: Final = 30
"""Toleration of an unreachable node; Kubernetes' default is 300 s."""

LOG_LEVEL_ENV: Final = "TF_CPP_MIN_LOG_LEVEL"
LOG_LEVEL: Final = "1"
"""TensorFlow's log level of a script: without INFO, which is half of the lines of a short run. Warnings stay: one of
them explains why GPUs are not used. For a program the trainer sets the level, by `runtime.logDevicePlacement`."""

TEMPORARY: Final = "tfdist-tmp"
"""Volume of the temporary directory."""
_TEMPORARY_PATH: Final = "/tmp"  # noqa: S108  a directory of the container, mounted from an emptyDir

SHARED_MEMORY: Final = "tfdist-shm"
"""Volume of the shared memory."""
_SHARED_MEMORY_PATH: Final = "/dev/shm"  # noqa: S108  a tmpfs of the container
_SHARED_GIB_PER_GPU: Final = 1
"""NVIDIA's examples for NCCL have 1 GiB for a machine; scripts that load data in several processes need more."""


def default_template(
    job: TFDistJob, role: Role, requested: dict[str, Any], installation: Installation
) -> dict[str, Any]:
    """Return the defaults of a role: built-in ones, `podDefaults` of the installation, labels of the job, `scheduling`.

    Args:
        job: the job.
        role: the role.
        requested: the role's template of the job, which the caller merges over the result.
        installation: image and `podDefaults`.
    """
    main = main_container(requested)
    bundled = "image" not in main
    merged = merge(installation.pod_defaults, requested, "PodTemplateSpec")
    pod_security, container_security = default_security(merged, bundled=bundled)
    container = {
        "name": contract.MAIN_CONTAINER,
        "image": installation.default_image,
        "ports": default_ports(requested),
        "securityContext": container_security,
        # A program that writes no message leaves the end of its log as the cause of its failure.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [{"name": TEMPORARY, "mountPath": _TEMPORARY_PATH}],
    }
    if bundled:
        container["command"] = list(DEFAULT_COMMAND)
    if not job.spec.runs_program and "envFrom" not in main_container(merged):  # `env` would override what that sets
        container["env"] = [{"name": LOG_LEVEL_ENV, "value": LOG_LEVEL}]
    # with a ServiceAccount of its own the pod has the token, unless that ServiceAccount or the template forbids it
    token = {} if "serviceAccountName" in requested.get("spec", {}) else {"automountServiceAccountToken": False}
    spec: dict[str, Any] = token | {
        "containers": [container],
        # Otherwise each container gets variables for every Service of the namespace.
        "enableServiceLinks": False,
        "securityContext": pod_security,
        "volumes": [{"name": TEMPORARY, "emptyDir": {}}],
    }
    result = {"spec": spec}
    # The later overrides the earlier; the job itself is merged by the caller, over all of these.
    for layer in (
        _shared_memory(merged),
        installation.pod_defaults,
        {"metadata": {"labels": names.inherited_labels(job)}, "spec": _scheduling_fields(job, role)},
        _network(job),
        source.overlay(
            job.spec.training, installation.default_image, main_container(merged), as_root=pod_runs_as_root(merged)
        ),
        requirements.overlay(
            job.spec.training,
            installation.default_image,
            main_container(merged),
            TEMPORARY,
            bundled=bundled,
            as_root=pod_runs_as_root(merged),
        ),
    ):
        result = merge(result, layer, "PodTemplateSpec")
    return result


def _shared_memory(requested: Mapping[str, Any]) -> dict[str, Any]:
    """Return the template that mounts memory at `/dev/shm`, for `requested` with several GPUs; else an empty one.

    NCCL exchanges between the GPUs of a container through it, and container runtimes limit it to 64 MiB. A volume that
    `requested` mounts there is kept, and with `hostIPC` the container has the shared memory of its node.
    """
    main, path = main_container(requested), PurePosixPath(_SHARED_MEMORY_PATH)
    gpus = nvidia_gpus(main)
    is_mounted = any(PurePosixPath(mount.get("mountPath", "")) == path for mount in main.get("volumeMounts", ()))
    if gpus <= 1 or is_mounted or requested.get("spec", {}).get("hostIPC"):
        return {}
    memory = {"medium": "Memory", "sizeLimit": f"{gpus * _SHARED_GIB_PER_GPU}Gi"}
    mount = {"name": SHARED_MEMORY, "mountPath": _SHARED_MEMORY_PATH}
    return {
        "spec": {
            "containers": [{"name": contract.MAIN_CONTAINER, "volumeMounts": [mount]}],
            "volumes": [{"name": SHARED_MEMORY, "emptyDir": memory}],
        }
    }


def _network(job: TFDistJob) -> dict[str, Any]:
    """Return the template with the variables of `runtime.network`, which override the installation's."""
    network = job.spec.runtime.network
    env = []
    if network.interfaces:  # NCCL takes names as prefixes without the leading "="
        env.append({"name": "NCCL_SOCKET_IFNAME", "value": f"={','.join(network.interfaces)}"})
    if network.debug:
        env.append({"name": "NCCL_DEBUG", "value": "INFO"})
    return {"spec": {"containers": [{"name": contract.MAIN_CONTAINER, "env": env}]}} if env else {}


def default_ports(requested: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the default ports of the container `tensorflow`; a template may set another number for TensorFlow's."""
    return [
        {"name": contract.TF_PORT_NAME, "containerPort": tensorflow_port(requested)},
        {"name": "tfdist-report", "containerPort": contract.REPORT_PORT},
    ]


def _scheduling_fields(job: TFDistJob, role: Role) -> dict[str, Any]:
    """Return the pod fields of `scheduling`: priority class, and affinity to the topology domain of the gang."""
    scheduling = job.spec.scheduling
    result: dict[str, Any] = {}
    if scheduling.priority_class_name:
        result["priorityClassName"] = scheduling.priority_class_name
    if scheduling.topology_key and role is not Role.EVALUATOR:
        selector = {"labelSelector": {"matchLabels": {names.JOB_UID_LABEL: job.metadata.uid}}}
        term = {"weight": 100, "podAffinityTerm": selector | {"topologyKey": scheduling.topology_key}}
        result["affinity"] = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}
    return result


def node_loss_tolerations(tolerations: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the tolerations that bound how long a pod stays bound to a dead node, except those in `tolerations`."""
    keys = (f"node.kubernetes.io/{key}" for key in ("not-ready", "unreachable"))
    return [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": NODE_LOSS_SECONDS}
        for key in keys
        if not any(t.get("key") in {key, None} and t.get("effect") in {"NoExecute", None} for t in tolerations)
    ]
