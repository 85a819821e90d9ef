"""The pod of one replica in one attempt: what its author asks for, between the controller's defaults and its say.

Defaults are lowest and anyone may change them; then comes the author's template; last what must be so for the
replicas to find each other and for the controller to know them.
"""

from dataclasses import dataclass
from typing import Any, Final

from tfdist import contract
from tfdist.api.v1 import Strategy, TFDistJob
from tfdist.contract import Role
from tfdist.podspec import merge
from tfdist.render import names, source
from tfdist.render.gang import Gang, Member, addresses, cluster_spec, tensorflow_role
from tfdist.render.owner import owner_reference
from tfdist.render.replica_job import replica_job
from tfdist.render.security import default_security
from tfdist.render.template import main_container, role_template, tensorflow_port
from tfdist.tf_config import tf_config


@dataclass(frozen=True, slots=True)
class Attempt:
    """Which start of a gang a pod belongs to.

    `number` counts the gang's starts from 0; `address_generation` is the value by which the job's Service
    selects the pods that may be found under the replicas' names; on `avoided_nodes` earlier ones have failed.
    """

    number: int
    address_generation: int
    avoided_nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Installation:
    """What holds for all jobs of an installation.

    `default_image` is used where a job names none; `cluster_domain` is put behind addresses where pods do not
    search for it themselves; `namespace` is the controller's own.
    """

    default_image: str
    cluster_domain: str = ""
    namespace: str = "tfdist-system"


DEFAULT_COMMAND: Final = ("python", "-m", "tfdist_trainer")
NODE_LOSS_SECONDS: Final = 30
"""A replica on a node that stops answering is given up after so long instead of Kubernetes' 300 s."""

_TEMPORARY: Final = "tfdist-tmp"
_TEMPORARY_PATH: Final = "/tmp"  # noqa: S108  a folder of the container, an emptyDir of its own


def pod(job: TFDistJob, gang: Gang, member: Member, attempt: Attempt, installation: Installation) -> dict[str, Any]:
    """Return the pod that runs `member` of `gang` in `attempt`."""
    asked = role_template(job, member.role)
    merged = merge(_defaults(job, member, asked, installation), asked, "PodTemplateSpec")
    meta, spec = merged.get("metadata", {}), merged["spec"]
    _finish_container(spec, _variables(job, gang, member, attempt.number, installation))
    spec["tolerations"] = [*spec.get("tolerations", ()), *_node_loss_tolerations(spec.get("tolerations", ()))]
    if attempt.avoided_nodes:
        _avoid(spec, attempt.avoided_nodes)
    spec |= {
        "hostname": names.hostname(member.role, member.index),
        "restartPolicy": "Never",
        "subdomain": job.metadata.name,
    }
    metadata = {
        "name": names.pod_name(job.metadata.name, member.role, member.index, attempt.number),
        "namespace": job.metadata.namespace,
        "labels": meta.get("labels", {}) | _labels(job, member, attempt),
    }
    if annotations := meta.get("annotations"):
        metadata["annotations"] = annotations
    metadata["ownerReferences"] = [owner_reference(job)]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _defaults(job: TFDistJob, member: Member, asked: dict[str, Any], installation: Installation) -> dict[str, Any]:
    """Return the template below the author's: what holds where nothing is said."""
    main = main_container(asked)
    bundled = "image" not in main
    of_pod, of_container = default_security(bundled=bundled)
    container = {
        "name": contract.MAIN_CONTAINER,
        "image": installation.default_image,
        "ports": _ports(asked),
        "securityContext": of_container,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [{"name": _TEMPORARY, "mountPath": _TEMPORARY_PATH}],
    }
    if bundled:
        container["command"] = list(DEFAULT_COMMAND)
    spec: dict[str, Any] = {
        "automountServiceAccountToken": "serviceAccountName" in asked.get("spec", {}),
        "containers": [container],
        "enableServiceLinks": False,
        "securityContext": of_pod,
        "volumes": [{"name": _TEMPORARY, "emptyDir": {}}],
    }
    spec |= _scheduling(job, member)
    return merge({"spec": spec}, source.overlay(job.spec.training, installation.default_image), "PodTemplateSpec")


def _ports(asked: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the container's ports; TensorFlow's may have another number in the author's template."""
    return [
        {"name": contract.TF_PORT_NAME, "containerPort": tensorflow_port(asked)},
        {"name": "tfdist-report", "containerPort": contract.REPORT_PORT},
    ]


def _scheduling(job: TFDistJob, member: Member) -> dict[str, Any]:
    """Return what `scheduling` says to Kubernetes' own scheduler; the evaluator is never part of the gang."""
    scheduling = job.spec.scheduling
    result: dict[str, Any] = {}
    if scheduling.priority_class_name:
        result["priorityClassName"] = scheduling.priority_class_name
    if scheduling.topology_key and member.role is not Role.EVALUATOR:
        together = {"labelSelector": {"matchLabels": {names.JOB_UID_LABEL: job.metadata.uid}}}
        term = {"weight": 100, "podAffinityTerm": together | {"topologyKey": scheduling.topology_key}}
        result["affinity"] = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}
    return result


def _avoid(spec: dict[str, Any], nodes: tuple[str, ...]) -> None:
    """Prefer other nodes: preferred and not required, so that the only node there is stays good enough."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": [node]} for node in nodes]}
    affinity = spec.setdefault("affinity", {}).setdefault("nodeAffinity", {})
    preferred = affinity.get("preferredDuringSchedulingIgnoredDuringExecution", ())
    affinity["preferredDuringSchedulingIgnoredDuringExecution"] = [*preferred, {"weight": 100, "preference": term}]


def _finish_container(spec: dict[str, Any], generated: dict[str, str]) -> None:
    """Put the generated variables behind those of the author, which may refer to none of them."""
    container = next(c for c in spec["containers"] if c["name"] == contract.MAIN_CONTAINER)
    own = [v for v in container.get("env", ()) if v["name"] not in generated]
    container["env"] = [*own, *({"name": name, "value": value} for name, value in sorted(generated.items()))]


def _variables(job: TFDistJob, gang: Gang, member: Member, attempt: int, installation: Installation) -> dict[str, str]:
    domain = installation.cluster_domain
    told = replica_job(job, gang, member, attempt, addresses(job, gang, domain))
    values = {contract.JOB_ENV: told.to_json(), contract.REPORT_PORT_ENV: str(contract.REPORT_PORT)}
    cluster = cluster_spec(job, gang, domain)
    config = tf_config(cluster, tensorflow_role(member.role), member.index) if cluster else None
    if config is not None:
        values[contract.TF_CONFIG_ENV] = config
    if job.spec.strategy is Strategy.PARAMETER_SERVER:
        values["GRPC_FAIL_FAST"] = "use_caller"  # or a lost worker blocks the coordinator for ever
    return values


def _labels(job: TFDistJob, member: Member, attempt: Attempt) -> dict[str, str]:
    return names.job_labels(job) | {
        "app.kubernetes.io/component": str(member.role),
        names.ROLE_LABEL: str(member.role),
        names.INDEX_LABEL: str(member.index),
        names.ATTEMPT_LABEL: str(attempt.number),
        names.SERVED_LABEL: str(attempt.address_generation),
    }


def _node_loss_tolerations(own: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the tolerations that bound how long a dead node holds a replica, but those that the author gives."""
    keys = (f"node.kubernetes.io/{key}" for key in ("not-ready", "unreachable"))
    return [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": NODE_LOSS_SECONDS}
        for key in keys
        if not any(t.get("key") in {key, None} and t.get("effect") in {"NoExecute", None} for t in own)
    ]
