"""The chart's values: one model from which `values.yaml`, its schema and the tables of the README are written.

Every field has a default that is safe on any cluster, and a description that says what it is good for. The schema
forbids what is not here, so that a typing mistake is refused by `helm install` and not ignored.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

NamespaceName = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)]
Port = Annotated[int, Field(ge=1, le=65535)]
Amount = Annotated[str, Field(min_length=1)] | Annotated[int, Field(ge=0)]


class Values(BaseModel):
    """A level of the values."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", populate_by_name=True)


class Image(Values):
    """An image."""

    repository: str = Field(min_length=1, description="Registry and repository.")
    tag: str = Field("", description='Tag; "" is the version of the chart.')
    digest: str = Field("", pattern=r"^(sha256:[0-9a-f]{64})?$", description="Digest, which goes before the tag.")


class ControllerImage(Image):
    """The controller's."""

    repository: str = Field("tfdist/controller", min_length=1, description="Registry and repository.")
    pull_policy: Literal["Always", "IfNotPresent", "Never"] = Field("IfNotPresent", description="When it is pulled.")


class TrainerImage(Image):
    """The default of jobs."""

    repository: str = Field("tfdist/trainer", min_length=1, description="Registry and repository.")


class Crds(Values):
    """The resource definition."""

    install: bool = Field(
        True,
        description="Install and upgrade the definition of TFDistJob with this release. It is one for the whole "
        "cluster: set false in all but one of several releases, or where an administrator applies it.",
    )
    keep: bool = Field(
        True,
        description="Leave the definition in the cluster at `helm uninstall`. With false, all jobs of the cluster "
        "go with it.",
    )


class Rbac(Values):
    """Rights."""

    create: bool = Field(True, description="Make the controller's roles and bindings: exactly the calls that it makes.")
    user_roles: bool = Field(
        True,
        description="Add TFDistJobs to the cluster's roles `view`, `edit` and `admin`. Only where `namespaces` is "
        "empty, since these are roles of the cluster.",
    )


class ServiceAccount(Values):
    """The controller's account."""

    create: bool = Field(True, description="Make the account.")
    name: str = Field("", description='Its name; "" is the name of the Deployment.')
    annotations: dict[str, str] = Field(default_factory=dict, description="Its annotations.")


class Settings(Values):
    """How the controller works."""

    workers: int = Field(16, ge=1, le=256, description="Jobs that are looked at in parallel.")
    progress_poll_seconds: float = Field(2, gt=0, description="How often a running job is asked for its progress.")
    progress_write_seconds: float = Field(
        10, gt=0, description="Least time between two writes of a job's status in which only counters moved."
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        "INFO", description="What the log holds; it is JSON."
    )


class Resources(Values):
    """What the controller needs."""

    requests: dict[str, Amount] = Field(
        default_factory=lambda: dict[str, Amount](cpu="50m", memory="128Mi"),
        description="A standby and a few jobs need no more; creating 300 jobs at once took 116 MB.",
    )
    limits: dict[str, Amount] = Field(
        default_factory=lambda: dict[str, Amount](memory="512Mi"),
        description="Memory grows with the pods in the cache. No limit of CPU: throttled, it would lose its Lease.",
    )


class Budget(Values):
    """The PodDisruptionBudget."""

    enabled: bool = Field(True, description="Let a drain take one replica at a time.")


class NetworkPolicy(Values):
    """Traffic of the controller."""

    enabled: bool = Field(
        True,
        description="Close all ports of the controller but that of metrics and probes, and all ways out but to the "
        "API server, DNS and the report ports of jobs.",
    )
    metrics_from: list[dict[str, Any]] = Field(
        default_factory=lambda: [{"namespaceSelector": {}}],
        description="Who reads the metrics, as peers of a NetworkPolicy; by default any pod of the cluster. "
        "They tell names and progress of jobs.",
    )
    api_server_ports: list[Port] = Field(
        default_factory=lambda: [443, 6443],
        min_length=1,
        description="Ports on which the API server listens, behind its Service.",
    )


class ServiceMonitor(Values):
    """How Prometheus' operator finds the metrics."""

    enabled: bool = Field(False, description="Make a ServiceMonitor; needs the Prometheus operator.")
    interval: str = Field("30s", pattern=r"^[0-9]+(ms|s|m)$", description="How often the metrics are read.")
    labels: dict[str, str] = Field(default_factory=dict, description="Labels by which your Prometheus chooses it.")


class PrometheusRule(Values):
    """Alerts."""

    enabled: bool = Field(False, description="Make the alerts of docs/operations.md; needs the Prometheus operator.")
    labels: dict[str, str] = Field(default_factory=dict, description="Labels by which your Prometheus chooses them.")


class Dashboards(Values):
    """Dashboards for Grafana."""

    enabled: bool = Field(False, description="Make ConfigMaps with the dashboards of jobs and of the controller.")
    labels: dict[str, str] = Field(
        default_factory=lambda: {"grafana_dashboard": "1"}, description="Labels by which Grafana's sidecar finds them."
    )


class Metrics(Values):
    """Monitoring."""

    service_monitor: ServiceMonitor = Field(default_factory=ServiceMonitor, description="How metrics are found.")
    prometheus_rule: PrometheusRule = Field(default_factory=PrometheusRule, description="Alerts.")
    dashboards: Dashboards = Field(default_factory=Dashboards, description="Dashboards for Grafana.")


class ChartValues(Values):
    """All values."""

    image: ControllerImage = Field(default_factory=ControllerImage, description="The controller's image.")
    trainer_image: TrainerImage = Field(default_factory=TrainerImage, description="Image of jobs that name none.")
    image_pull_secrets: list[dict[str, str]] = Field(
        default_factory=list, description="Secrets for the controller's image, such as `[{name: registry}]`."
    )
    fullname_override: str = Field(
        "",
        pattern=r"^([a-z]([-a-z0-9]*[a-z0-9])?)?$",
        max_length=52,
        description="Name of the Deployment, its Lease and roles, in place of `tfdist-controller`.",
    )
    namespaces: list[NamespaceName] = Field(
        default_factory=list,
        json_schema_extra={"uniqueItems": True},
        description="Namespaces that the controller acts in, which must exist; empty means all. With names it gets "
        "Roles there and no ClusterRole, and neither sees nor touches anything elsewhere.",
    )
    crds: Crds = Field(default_factory=Crds, description="The definition of TFDistJob.")
    rbac: Rbac = Field(default_factory=Rbac, description="Rights of the controller and of users.")
    service_account: ServiceAccount = Field(default_factory=ServiceAccount, description="The controller's account.")
    settings: Settings = Field(default_factory=Settings, description="How the controller works.")
    pod_defaults: dict[str, Any] = Field(
        default_factory=dict,
        description="Part of a PodTemplateSpec that the pods of all jobs begin with: node selectors, tolerations, pull "
        "secrets, labels. Everything that a job says itself goes before it. A mistake in it stops the new controller "
        "with the field in its log, and the old one goes on. Example: "
        "`{spec: {nodeSelector: {pool: training}, imagePullSecrets: [{name: registry}]}}`.",
    )
    replicas: int = Field(2, ge=1, le=9, description="Of the controller: one leads, the others take over in seconds.")
    resources: Resources = Field(default_factory=Resources, description="What each replica needs.")
    pod_disruption_budget: Budget = Field(default_factory=Budget, description="Drains.")
    priority_class_name: str = Field(
        "", description="Priority of the controller's pods, such as `system-cluster-critical`."
    )
    node_selector: dict[str, str] = Field(default_factory=dict, description="Nodes for the controller.")
    tolerations: list[dict[str, Any]] = Field(default_factory=list, description="Taints that the controller tolerates.")
    affinity: dict[str, Any] = Field(
        default_factory=dict, description="Affinity of the controller's pods; they spread over nodes in any case."
    )
    pod_labels: dict[str, str] = Field(default_factory=dict, description="Further labels of the controller's pods.")
    pod_annotations: dict[str, str] = Field(default_factory=dict, description="Annotations of the controller's pods.")
    network_policy: NetworkPolicy = Field(
        default_factory=NetworkPolicy, description="Traffic from and to the controller."
    )
    metrics: Metrics = Field(default_factory=Metrics, description="Monitoring.")
