"""The chart's values: one model from which `values.yaml`, its schema and the tables of the README are written.

Every field has a default that is safe on any cluster, and a description. The schema forbids unknown values, so that
`helm install` rejects a misspelled one instead of ignoring it.
"""

from typing import Annotated, Any, Literal

from pydantic import Field

from tfdist.api import patterns
from tfdist.validation.structure import MAX_SPEC_BYTES
from value_types import Amount, Kubernetes, NamespaceName, Port, Values


class Image(Values):
    """A container image."""

    repository: str = Field(min_length=1, description="Image repository, including the registry.")
    tag: str = Field("", description="Image tag. Defaults to the chart's appVersion.")
    digest: str = Field(
        "", pattern=r"^(sha256:[0-9a-f]{64})?$", description="Image digest. Takes precedence over the tag."
    )


class ControllerImage(Image):
    """The image of the controller."""

    repository: str = Field("tfdist/controller", min_length=1, description="Image repository, including the registry.")
    pull_policy: Literal["Always", "IfNotPresent", "Never"] = Field("IfNotPresent", description="Image pull policy.")


class TrainerImage(Image):
    """The default image of jobs."""

    repository: str = Field("tfdist/trainer", min_length=1, description="Image repository, including the registry.")
    bundled_programs: bool = Field(
        True,
        description="Whether the image contains exactly the bundled programs. If true, the controller validates "
        "`training` of jobs that set no image. Set to false if the image contains other programs.",
    )


class Crds(Values):
    """The custom resource definitions."""

    install: bool = Field(
        True,
        description="Install and upgrade the CustomResourceDefinitions of TFDistJob and TFDistSweep with this release. "
        "They are cluster-scoped: set to false in all but one of several releases, or if an administrator applies "
        "them.",
    )
    keep: bool = Field(
        True,
        description="Keep the CustomResourceDefinitions at `helm uninstall`. If false, uninstalling deletes all "
        "TFDistJobs and TFDistSweeps of the cluster.",
    )


class Rbac(Values):
    """Access of the controller and of users."""

    create: bool = Field(
        True, description="Create the controller's roles and bindings, which grant exactly the requests that it sends."
    )
    user_roles: bool = Field(
        True,
        description="Aggregate access to TFDistJobs and TFDistSweeps to the ClusterRoles `view`, `edit` and `admin`. "
        "Ignored if `namespaces` is set. `helm uninstall` keeps these roles if it keeps the CustomResourceDefinitions "
        "(`crds.keep`), and so does an upgrade that sets this to false.",
    )


class ServiceAccount(Values):
    """The ServiceAccount of the controller."""

    create: bool = Field(True, description="Create the ServiceAccount.")
    name: str = Field("", description="Name of the ServiceAccount. Defaults to the name of the Deployment.")
    annotations: dict[str, str] = Field(default_factory=dict, description="Annotations of the ServiceAccount.")


class Settings(Values):
    """Settings of the controller."""

    workers: int = Field(16, ge=1, le=256, description="Number of jobs that are reconciled in parallel.")
    progress_poll_seconds: float = Field(
        2, gt=0, description="Interval at which the controller polls the report of a running job, in seconds."
    )
    progress_write_seconds: float = Field(
        10,
        gt=0,
        description="Minimum interval between two status updates of a job in which only counters changed, in seconds.",
    )
    resync_seconds: float = Field(
        600,
        gt=0,
        description="Interval at which the controller compares its caches with the API server and reconciles every "
        "job, changed or not, in seconds, ±10 %.",
    )
    cluster_domain: str = Field(
        "",
        pattern=rf"^({patterns.DNS_NAME[1:-1]})?$",
        max_length=253,
        description="Cluster domain that is appended to the addresses of replicas, for example `cluster.local`. "
        "Defaults to none: the search path that Kubernetes gives every pod completes the addresses. Set it if pods of "
        "jobs have another `dnsPolicy` or `dnsConfig`. It applies to pods that are created from then on.",
    )
    max_spec_bytes: int = Field(
        MAX_SPEC_BYTES,
        ge=1024,
        le=3 << 20,
        description="Size of the largest valid specification of a job or sweep as JSON, in bytes. The controller "
        "keeps specifications in memory: 1,000 jobs of the largest size take 1,000 times this.",
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        "INFO", description="Log level. The log format is JSON."
    )


class Resources(Values):
    """Compute resources of a controller replica."""

    requests: dict[str, Amount] = Field(
        default_factory=lambda: dict[str, Amount](cpu="200m", memory="128Mi"),
        description="Resource requests. On a node whose CPU is full, `cpu` is what a replica gets: 200m suffices to "
        "start 30 jobs at once and for 1,000 jobs that report; with 50m a replica lost its Lease there, and needed a "
        "minute to start. Creating 300 jobs at once used 116 MB.",
    )
    limits: dict[str, Amount] = Field(
        default_factory=lambda: dict[str, Amount](memory="512Mi"),
        description="Resource limits. Memory grows with the number of cached pods. No CPU limit is set, because a "
        "throttled controller can lose its Lease.",
    )


class Budget(Values):
    """The PodDisruptionBudget."""

    enabled: bool = Field(
        True, description="Create a PodDisruptionBudget, so that a node drain evicts one replica at a time."
    )


class NetworkPolicy(Values):
    """The NetworkPolicy of the controller."""

    enabled: bool = Field(
        True,
        description="Create a NetworkPolicy that allows ingress only to the port of metrics and probes, and egress "
        "only to the API server, DNS and the report ports of jobs.",
    )
    metrics_from: list[dict[str, Any]] = Field(
        default_factory=list,
        description="NetworkPolicyPeers that may read the metrics, which contain names and progress of jobs. Defaults "
        "to the pods of the release's namespace and, with `metrics.serviceMonitor.enabled`, the pods of all namespaces "
        "whose label `app.kubernetes.io/name` is `prometheus`, `prometheus-agent`, `vmagent` or `alloy`. Any user who "
        "creates pods can set that label: name the namespace, as in "
        "`[{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}}]`.",
    )
    api_server_ports: list[Port] = Field(
        default_factory=lambda: [443, 6443],
        min_length=1,
        description="Ports of the API server's Service and endpoints.",
    )


class Webhook(Values):
    """The validating admission webhook."""

    enabled: bool = Field(
        False,
        description="Create a ValidatingWebhookConfiguration, so that `kubectl apply` reports the errors that "
        "`tfdist validate` reports. The controller creates and renews the certificate.",
    )
    failure_policy: Literal["Ignore", "Fail"] = Field(
        "Ignore",
        description="Failure policy of the webhook. `Ignore` admits a job if no replica responds, and the controller "
        "validates it later. `Fail` rejects all requests to create or update jobs if no replica responds.",
    )
    timeout_seconds: int = Field(
        5, ge=1, le=30, description="Time that the API server waits for a response of the webhook, in seconds."
    )


class AdmissionPolicies(Values):
    """ValidatingAdmissionPolicies for TFDistJobs."""

    enabled: bool = Field(
        False,
        description="Create a ValidatingAdmissionPolicy that rejects TFDistJobs with what the Pod Security Standard "
        "`baseline` forbids (privileged containers, hostPath volumes, host namespaces and ports, additional "
        "capabilities, and others), or with a ServiceAccount that is not in `serviceAccounts`. Requires Kubernetes "
        "1.30.",
    )
    service_accounts: list[str] = Field(
        default_factory=lambda: ["default"], description="ServiceAccounts that pods of jobs may use."
    )
    open_ports: bool = Field(
        True, description="Whether jobs may set `networkPolicyIngress` and `networkPolicy: Disabled`."
    )
    namespace_selector: dict[str, Any] = Field(
        default_factory=dict,
        description="LabelSelector of the namespaces that the policy applies to. Defaults to `namespaces`.",
    )


class ServiceMonitor(Values):
    """The ServiceMonitor of the Prometheus operator."""

    enabled: bool = Field(False, description="Create a ServiceMonitor. Requires the Prometheus operator.")
    interval: str = Field("30s", pattern=r"^[0-9]+(ms|s|m)$", description="Scrape interval.")
    labels: dict[str, str] = Field(
        default_factory=dict, description="Labels of the ServiceMonitor, for the selector of your Prometheus."
    )


class PrometheusRule(Values):
    """The PrometheusRule with the alerts."""

    enabled: bool = Field(
        False,
        description="Create a PrometheusRule with the alerts of docs/operations.md. Requires the Prometheus operator.",
    )
    labels: dict[str, str] = Field(
        default_factory=dict, description="Labels of the PrometheusRule, for the selector of your Prometheus."
    )


class Dashboards(Values):
    """Grafana dashboards."""

    enabled: bool = Field(False, description="Create ConfigMaps with the dashboards for jobs and for the controller.")
    labels: dict[str, str] = Field(
        default_factory=lambda: {"grafana_dashboard": "1"},
        description="Labels of the ConfigMaps, for the sidecar of Grafana.",
    )


class Metrics(Values):
    """Monitoring."""

    service_monitor: ServiceMonitor = Field(default_factory=ServiceMonitor, description="The ServiceMonitor.")
    prometheus_rule: PrometheusRule = Field(default_factory=PrometheusRule, description="The alerts.")
    dashboards: Dashboards = Field(default_factory=Dashboards, description="The Grafana dashboards.")


class ChartValues(Values):
    """All values."""

    image: ControllerImage = Field(default_factory=ControllerImage, description="Image of the controller.")
    trainer_image: TrainerImage = Field(default_factory=TrainerImage, description="Image of jobs that do not set one.")
    image_pull_secrets: list[dict[str, str]] = Field(
        default_factory=list, description="Image pull secrets of the controller, for example `[{name: registry}]`."
    )
    fullname_override: str = Field(
        "",
        pattern=r"^([a-z]([-a-z0-9]*[a-z0-9])?)?$",
        max_length=52,
        description="Name of the Deployment, the Lease and the roles. Defaults to `tfdist-controller`.",
    )
    namespaces: list[NamespaceName] = Field(
        default_factory=list,
        json_schema_extra={"uniqueItems": True},
        description="Namespaces that the controller watches. They must exist. Defaults to all namespaces. If set, the "
        "controller gets Roles in these namespaces instead of a ClusterRole, and has no access to any other.",
    )
    crds: Crds = Field(default_factory=Crds, description="The CustomResourceDefinitions of TFDistJob and TFDistSweep.")
    rbac: Rbac = Field(default_factory=Rbac, description="Access of the controller and of users.")
    service_account: ServiceAccount = Field(
        default_factory=ServiceAccount, description="ServiceAccount of the controller."
    )
    settings: Settings = Field(default_factory=Settings, description="Settings of the controller.")
    pod_defaults: Annotated[dict[str, Any], Kubernetes("PodTemplateSpec")] = Field(
        default_factory=dict,
        description="Partial PodTemplateSpec that is merged into the pods of all jobs: node selectors, tolerations, "
        "pull secrets, labels. Fields that a job sets take precedence. `helm install` rejects unknown fields and wrong "
        "types; on any other error the new controller exits, its log names the field, and the old one continues. "
        "Example: `{spec: {nodeSelector: {pool: training}, imagePullSecrets: [{name: registry}]}}`.",
    )
    replicas: int = Field(
        2,
        ge=1,
        le=9,
        description="Number of controller replicas. Leader election keeps one active; a standby takes over within "
        "seconds.",
    )
    resources: Resources = Field(default_factory=Resources, description="Compute resources of each replica.")
    pod_disruption_budget: Budget = Field(default_factory=Budget, description="PodDisruptionBudget of the controller.")
    priority_class_name: str = Field(
        "",
        description="PriorityClass of the controller's pods, for example `system-cluster-critical`. Without one, pods "
        "of jobs that wait for a node may take the room of a controller that is drained. Not set by default, because a "
        "ResourceQuota may restrict the class to some namespaces.",
    )
    node_selector: dict[str, str] = Field(default_factory=dict, description="Node selector of the controller's pods.")
    tolerations: list[Annotated[dict[str, Any], Kubernetes("Toleration")]] = Field(
        default_factory=list,
        description="Tolerations of the controller's pods. Tolerations of 30 s for `node.kubernetes.io/not-ready` and "
        "`node.kubernetes.io/unreachable` are added unless these taints are listed here.",
    )
    affinity: Annotated[dict[str, Any], Kubernetes("Affinity")] = Field(
        default_factory=dict,
        description="Affinity of the controller's pods. A preference for different nodes and zones is added unless "
        "`podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution` is set here.",
    )
    pod_labels: dict[str, str] = Field(default_factory=dict, description="Additional labels of the controller's pods.")
    pod_annotations: dict[str, str] = Field(
        default_factory=dict, description="Additional annotations of the controller's pods."
    )
    network_policy: NetworkPolicy = Field(default_factory=NetworkPolicy, description="NetworkPolicy of the controller.")
    webhook: Webhook = Field(default_factory=Webhook, description="Validating admission webhook for jobs.")
    admission_policies: AdmissionPolicies = Field(
        default_factory=AdmissionPolicies, description="ValidatingAdmissionPolicies for jobs."
    )
    metrics: Metrics = Field(default_factory=Metrics, description="Monitoring of the controller.")
