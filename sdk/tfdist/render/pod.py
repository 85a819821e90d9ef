"""The pods of a gang: what their author asks for, between the controller's defaults and its say.

Defaults are lowest and anyone may change them; then comes the author's template; last what must be so for the
replicas to find each other and for the controller to know them.
"""

from dataclasses import dataclass
from typing import Any

from tfdist import contract
from tfdist.api.v1 import Strategy, TFDistJob
from tfdist.contract import Role
from tfdist.podspec import merge
from tfdist.render import names
from tfdist.render.defaults import default_template, node_loss_tolerations
from tfdist.render.gang import Gang, Member, addresses, cluster_spec, tensorflow_role
from tfdist.render.installation import Installation
from tfdist.render.launch import NO_PAST, Past, launch_settings
from tfdist.render.owner import owner_reference
from tfdist.render.replica_job import replica_job
from tfdist.render.template import role_template
from tfdist.tf_config import tf_config

Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Attempt:
    """Which start of a gang a pod belongs to.

    `number` counts the gang's starts from 0; `address_generation` is the value by which the job's Service
    selects the pods that may be found under the replicas' names; on `avoided_nodes` earlier ones have failed.
    """

    number: int
    address_generation: int
    avoided_nodes: tuple[str, ...] = ()


class PodRenderer:
    """Makes the pods of one gang. What they share is made once, so that N pods cost N and not N times N.

    The pods share the parts that are equal: they are to be sent, and not changed.
    """

    def __init__(self, job: TFDistJob, gang: Gang, installation: Installation, past: Past = NO_PAST) -> None:
        self._job = job
        self._gang = gang
        self._installation = installation
        self._addresses = addresses(job, gang, installation.cluster_domain)
        self._cluster = cluster_spec(job, gang, installation.cluster_domain)
        self._launch = launch_settings(job, gang, past, installation.cluster_domain)
        self._templates: dict[Role, Manifest] = {}

    def pod(self, member: Member, attempt: Attempt) -> Manifest:
        """Return the pod that runs `member` in `attempt`."""
        job, template = self._job, self._template(member.role)
        meta, spec = template.get("metadata", {}), dict(template["spec"])
        generated = self._variables(member, attempt.number)
        spec["containers"] = [_with_variables(container, generated) for container in spec["containers"]]
        if attempt.avoided_nodes:
            spec["affinity"] = _avoiding(spec.get("affinity", {}), attempt.avoided_nodes)
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

    def _template(self, role: Role) -> Manifest:
        """Return the template of a role, defaults included."""
        if role not in self._templates:
            asked = role_template(self._job, role)
            template = merge(default_template(self._job, role, asked, self._installation), asked, "PodTemplateSpec")
            own = template["spec"].get("tolerations", [])
            template["spec"]["tolerations"] = [*own, *node_loss_tolerations(own)]
            self._templates[role] = template
        return self._templates[role]

    def _variables(self, member: Member, attempt: int) -> dict[str, str]:
        addresses = {} if self._cluster else self._addresses  # for hundreds of replicas they are most of a pod
        launch = self._launch(member) if self._launch else None
        told = replica_job(self._job, self._gang, member, attempt, addresses, launch)
        values = {contract.JOB_ENV: told.to_json(), contract.REPORT_PORT_ENV: str(contract.REPORT_PORT)}
        role = tensorflow_role(member.role)
        config = tf_config(self._cluster, role, member.index) if self._cluster else None
        if config is not None:
            values[contract.TF_CONFIG_ENV] = config
        if self._job.spec.strategy is Strategy.PARAMETER_SERVER:
            values["GRPC_FAIL_FAST"] = "use_caller"  # or a lost worker blocks the coordinator for ever
        return values


def pod(job: TFDistJob, gang: Gang, member: Member, attempt: Attempt, installation: Installation) -> Manifest:
    """Return the pod that runs `member` of `gang` in `attempt`; for several use a `PodRenderer`."""
    return PodRenderer(job, gang, installation).pod(member, attempt)


def _with_variables(container: Manifest, generated: dict[str, str]) -> Manifest:
    """Return the container `tensorflow` with the generated variables behind its own, which may refer to none."""
    if container["name"] != contract.MAIN_CONTAINER:
        return container
    own = [v for v in container.get("env", ()) if v["name"] not in generated]
    return container | {"env": [*own, *({"name": k, "value": v} for k, v in sorted(generated.items()))]}


def _avoiding(affinity: Manifest, nodes: tuple[str, ...]) -> Manifest:
    """Return an affinity that prefers other nodes: preferred, so that the only node there is stays good enough."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": [node]} for node in nodes]}
    of_nodes = affinity.get("nodeAffinity", {})
    preferred = of_nodes.get("preferredDuringSchedulingIgnoredDuringExecution", ())
    more = {"preferredDuringSchedulingIgnoredDuringExecution": [*preferred, {"weight": 100, "preference": term}]}
    return affinity | {"nodeAffinity": of_nodes | more}


def _labels(job: TFDistJob, member: Member, attempt: Attempt) -> dict[str, str]:
    return names.job_labels(job) | {
        "app.kubernetes.io/component": str(member.role),
        names.ROLE_LABEL: str(member.role),
        names.INDEX_LABEL: str(member.index),
        names.ATTEMPT_LABEL: str(attempt.number),
        names.SERVED_LABEL: str(attempt.address_generation),
    }
