"""The pods of a gang.

Three layers: the defaults, which a job may override; the job's template; and the fields that the controller sets, so
that the replicas find each other and the controller identifies the pods.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tfdist import contract
from tfdist.api.gang_status import GangStatus
from tfdist.api.v1 import Strategy, TFDistJob
from tfdist.contract import Role
from tfdist.podspec import merge
from tfdist.podspec.resources import nvidia_gpus
from tfdist.render import names
from tfdist.render.defaults import default_template, node_loss_tolerations
from tfdist.render.gang import Gang, Member, addresses, cluster_spec, tensorflow_role
from tfdist.render.installation import Installation
from tfdist.render.launch import pod_launch_settings
from tfdist.render.launcher_secret import key_variable
from tfdist.render.metadata import Manifest, owner_reference
from tfdist.render.pod_placement import PodPlacement
from tfdist.render.proxy import NO_GRPC_PROXY_ENV, no_grpc_proxy
from tfdist.render.replica_job import replica_job
from tfdist.render.source import with_source_first
from tfdist.render.template import main_container, role_template
from tfdist.tf_config import cluster_json, tf_config


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt of a gang.

    `number` counts the attempts from 0. `address_generation` is the label value by which the job's Service selects
    pods. `excluded_nodes` are nodes on which earlier attempts failed.
    """

    number: int
    address_generation: int
    excluded_nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupFields:
    """The fields by which a pod belongs to a PodGroup; they replace those of its template."""

    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    spec: Mapping[str, Any] = field(default_factory=dict)


class PodRenderer:
    """Renders the pods of one gang in time linear in their number: shared parts are rendered once.

    The returned pods share equal parts; do not modify them.

    Args:
        job: the job.
        gang: the gang.
        installation: settings of the installation.
        gang_status: the state of the gang; None for its first attempt.
        placements: what the admission of the job adds to the pods of a role.
        group_fields: returns the fields of a pod in the PodGroup of the gang, given its `schedulerName` ("" for none).
    """

    def __init__(
        self,
        job: TFDistJob,
        gang: Gang,
        installation: Installation,
        gang_status: GangStatus | None = None,
        placements: Mapping[Role, PodPlacement] | None = None,
        group_fields: Callable[[str], GroupFields] = lambda _: GroupFields(),
    ) -> None:
        self._job = job
        self._gang = gang
        self._installation = installation
        self._addresses = addresses(job, gang, installation.cluster_domain)
        self._cluster = cluster_spec(job, gang, installation.cluster_domain)
        # It grows with the number of replicas, each of which has it.
        self._cluster_json = cluster_json(self._cluster)
        state = gang_status or GangStatus()
        self._launch = pod_launch_settings(job, gang, state, installation.cluster_domain)
        self._key = key_variable(job) if self._launch else None
        self._group_fields = group_fields
        self._domain = names.domain(job, installation.cluster_domain)
        self._placements = placements or {}
        self._templates: dict[Role, Manifest] = {}

    def pod(self, member: Member, attempt: Attempt) -> Manifest:
        """Return the pod that runs `member` in `attempt`."""
        job, template = self._job, self._template(member.role)
        meta, spec = template.get("metadata", {}), dict(template["spec"])
        generated = self.variables(member, attempt.number)
        spec["containers"] = [self._with_variables(container, generated) for container in spec["containers"]]
        if attempt.excluded_nodes:
            spec["affinity"] = _excluding_nodes(spec.get("affinity", {}), attempt.excluded_nodes)
        group = self._group_fields(spec.get("schedulerName", ""))
        spec |= {
            **group.spec,
            "hostname": names.hostname(member.role, member.index),
            "restartPolicy": "Never",
            "subdomain": job.metadata.name,
        }
        metadata = {
            "name": names.pod_name(job.metadata.name, member.role, member.index, attempt.number),
            "namespace": job.metadata.namespace,
            "labels": {**meta.get("labels", {}), **group.labels, **_labels(job, member, attempt)},
        }
        if annotations := {**meta.get("annotations", {}), **group.annotations}:
            metadata["annotations"] = annotations
        metadata["ownerReferences"] = [owner_reference(job)]
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    def _template(self, role: Role) -> Manifest:
        """Return the template of a role with the defaults, and with what its admission adds."""
        if role not in self._templates:
            template = pod_template(self._job, role, self._installation)
            placement = self._placements.get(role)
            self._templates[role] = placement.apply_to(template) if placement else template
        return self._templates[role]

    def variables(self, member: Member, attempt: int) -> dict[str, str]:
        """Return the generated environment variables of `member` in an attempt."""
        addresses = {} if self._cluster else self._addresses  # they grow with the number of replicas
        launch = self._launch(member) if self._launch else None
        template = self._template(member.role)
        grace_seconds = template["spec"].get("terminationGracePeriodSeconds")
        gpus = nvidia_gpus(main_container(template))
        cluster = self._installation.cluster
        settings = replica_job(self._job, self._gang, member, attempt, addresses, launch, grace_seconds, gpus, cluster)
        values = {contract.JOB_ENV: settings.to_json(), contract.REPORT_PORT_ENV: str(contract.REPORT_PORT)}
        role = tensorflow_role(member.role)
        config = tf_config(self._cluster, role, member.index, self._cluster_json) if self._cluster else None
        if config is not None:
            values[contract.TF_CONFIG_ENV] = config
        if self._job.spec.strategy is Strategy.PARAMETER_SERVER:
            values["GRPC_FAIL_FAST"] = "use_caller"  # otherwise a lost worker blocks the coordinator forever
        return values

    def _with_variables(self, container: Manifest, generated: dict[str, str]) -> Manifest:
        """Return the container `tensorflow` with the generated variables appended: its own cannot refer to them."""
        if container["name"] != contract.MAIN_CONTAINER:
            return container
        # A proxy cannot reach the members, and the gang would wait without a message.
        has_peers = contract.TF_CONFIG_ENV in generated or self._job.spec.strategy is Strategy.INDEPENDENT
        direct = no_grpc_proxy(container, self._domain) if has_peers else None
        if direct is not None:
            generated = generated | {NO_GRPC_PROXY_ENV: direct}
        added = [{"name": k, "value": v} for k, v in sorted(generated.items())]
        if self._key:
            added.insert(0, self._key)  # before the variable that refers to it
        replaced = {v["name"] for v in added}
        own = [v for v in container.get("env", ()) if v["name"] not in replaced]
        return container | {"env": [*own, *added]}


def pod_template(job: TFDistJob, role: Role, installation: Installation) -> Manifest:
    """Return the template of a role with the defaults."""
    requested = role_template(job, role)
    template = merge(default_template(job, role, requested, installation), requested, "PodTemplateSpec")
    if "env" in (main := main_container(template)):
        main["env"] = [*with_source_first(job.spec.training, main["env"])]
    # After the merge, as a list of tolerations in the template would replace the default ones.
    own = template["spec"].get("tolerations", [])
    template["spec"]["tolerations"] = [*own, *node_loss_tolerations(own)]
    return template


def pod(job: TFDistJob, gang: Gang, member: Member, attempt: Attempt, installation: Installation) -> Manifest:
    """Return the pod that runs `member` of `gang` in `attempt`; for several use a `PodRenderer`."""
    return PodRenderer(job, gang, installation).pod(member, attempt)


def _excluding_nodes(affinity: Manifest, nodes: tuple[str, ...]) -> Manifest:
    """Return an affinity that prefers other nodes; preferred only, so that the last remaining node is still used."""
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
        names.SERVICE_GENERATION_LABEL: str(attempt.address_generation),
    }
