"""Checks of a cluster before a job is submitted, with the user's rights: unreadable objects are `unknown`."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import Final, NamedTuple
from urllib.parse import quote

from tfdist import __version__
from tfdist.api.crd import JOB, SWEEP, ResourceKind
from tfdist.api.resource import GROUP, PLURAL
from tfdist.api.served_schema import missing_fields, schema_path
from tfdist.api.status import ConditionType, JobCondition, JobPhase
from tfdist.client.api_server import ApiServer, Json
from tfdist.client.client import Client
from tfdist.client.errors import ClientError, Forbidden, NotFound, NotInstalled
from tfdist.client.job import Job
from tfdist.podspec.quantity import parse_quantity
from tfdist.remedies import remedy
from tfdist.timestamps import parse_time

OLDEST_MINOR: Final = 29
NEWEST_MINOR: Final = 37
"""Versions 1.29 to 1.37 of Kubernetes are supported."""

_CONTROLLER: Final = "app.kubernetes.io/name=tfdist-controller"
_CONTROLLER_NAMESPACE: Final = "tfdist-system"
_UNSEEN: Final = timedelta(minutes=2)
"""After which a job without a status shows that no controller runs."""
_NAMED_FIELDS: Final = 3
_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
_GPU: Final = re.compile(r".*/gpu|nvidia\.com/(gpu|mig-.*)")
_FINDINGS: Final = {
    ConditionType.PODS_READY: "False",
    ConditionType.EVALUATED: "False",
    ConditionType.INVALID: "True",
    ConditionType.RESTARTING: "True",
    ConditionType.STALLED: "True",
    ConditionType.DEGRADED: "True",
    ConditionType.FAILED: "True",
}
"""Status of a condition that is a finding."""

_RIGHTS: Final = "rights"

_REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_UPGRADE_NEEDS_CREATE: Final = 35
"""Minor version of Kubernetes since which a WebSocket to a pod also needs the verb `create`."""

_ENFORCED: Final = "pod-security.kubernetes.io/enforce"


class Result(StrEnum):
    """Result of a check."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"
    UNKNOWN = "unknown"
    """The user has no right to read the objects that the check needs."""


@dataclass(frozen=True, slots=True)
class Check:
    """A check and its result."""

    subject: str
    result: Result
    message: str
    remedy: str = ""


def ok(subject: str, message: str) -> Check:
    """Return a check without a finding."""
    return Check(subject, Result.OK, message)


def warning(subject: str, message: str, remedy: str = "") -> Check:
    """Return a check that does not stop every job."""
    return Check(subject, Result.WARNING, message, remedy)


def problem(subject: str, message: str, remedy: str = "") -> Check:
    """Return a check whose finding stops jobs."""
    return Check(subject, Result.PROBLEM, message, remedy)


def permitted(subject: str, check: Callable[[], Check]) -> Check:
    """Return the result of a check; `unknown` without the right to read the objects that it needs."""
    try:
        return check()
    except Forbidden:
        return Check(subject, Result.UNKNOWN, "you may not see this")
    except ClientError as error:
        return warning(subject, str(error))


def diagnose(client: Client, job: Job | None = None) -> Iterator[Check]:
    """Yield the checks of the cluster and the namespace, then the checks of a job.

    Raises:
        ClientError: the cluster does not answer in the middle of a check.
    """
    api, namespace = client.api, client.namespace
    try:
        version = api.request("GET", "/version")
    except ClientError as error:
        yield problem("connection", str(error))
        return
    minor = _minor(version)
    yield _version(api, version, minor)
    crd = permitted("CRD", partial(_crd, api, "CRD", JOB))
    yield crd
    yield permitted("CRD of sweeps", partial(_crd, api, "CRD of sweeps", SWEEP))
    if crd.result is not Result.PROBLEM:
        yield _controller(client)
    yield from check_rights(api, namespace, minor)
    yield permitted("namespace", partial(check_namespace, api, namespace))
    yield permitted("quota", partial(check_quota, api, namespace))
    yield permitted("storage", partial(_storage, api))
    yield permitted("GPUs", partial(_gpus, api))
    yield permitted("DNS", partial(_dns, api))
    if job is not None:
        yield from check_job(job)


def check_job(job: Job) -> Iterator[Check]:
    """Yield the findings of a job's conditions; if it has none, one check without a finding."""
    subject = f"job {job.name}"
    findings = [
        condition for condition in job.status.conditions or () if _FINDINGS.get(condition.type) == condition.status
    ]
    checks = [check for condition in findings if (check := _condition(job, subject, condition))]
    yield from checks
    if not checks and not job.is_current:
        if datetime.now(UTC) - parse_time(job.created) > _UNSEEN:
            yield problem(subject, "its status is older than its specification: no controller acts on it")
        else:
            yield ok(subject, "the controller has not acted on it yet")
    elif not checks:
        yield ok(subject, f"{job.phase}: {job.message}" if job.message else str(job.phase))


def _condition(job: Job, subject: str, condition: JobCondition) -> Check | None:
    starting = condition.type is ConditionType.PODS_READY
    if starting and (job.is_finished or job.phase in {JobPhase.SUSPENDED, JobPhase.SUSPENDING, JobPhase.QUEUED}):
        return None
    if starting and condition.reason in {"Starting", "Restarting"}:
        return None
    result = Result.WARNING if condition.type in {ConditionType.RESTARTING, ConditionType.EVALUATED} else Result.PROBLEM
    text = f"{condition.type}={condition.status}: {condition.reason}: {condition.message}"
    return Check(subject, result, text, remedy(condition.reason))


def _minor(version: Json) -> int:
    digits = re.match(r"\d+", str(version.get("minor") or ""))
    return int(digits[0]) if digits else 0


def _version(api: ApiServer, version: Json, minor: int) -> Check:
    text = f"{api.connection}, Kubernetes {version.get('gitVersion')}"
    if minor < OLDEST_MINOR:
        return problem("connection", text, f"TFDist needs Kubernetes 1.{OLDEST_MINOR} or newer")
    if minor > NEWEST_MINOR:
        return warning("connection", text, f"tested with 1.{OLDEST_MINOR} to 1.{NEWEST_MINOR}; upgrade TFDist")
    return ok("connection", text)


def _crd(api: ApiServer, subject: str, kind: ResourceKind) -> Check:
    try:
        document = api.request("GET", schema_path(kind))
    except (NotInstalled, NotFound):
        report = problem if kind is JOB else warning  # sweeps are optional
        text = f"this cluster has no {kind.kind}s"
        return report(subject, text, "ask an administrator to install the chart of TFDist")
    try:
        absent = [path for part in ("spec", "status") for path in missing_fields(document, kind, part)]
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        return warning(subject, f"its schema cannot be compared with the one of tfdist {__version__}: {error!r}")
    if absent:
        names = ", ".join(absent[:_NAMED_FIELDS]) + (", ..." if len(absent) > _NAMED_FIELDS else "")
        return warning(
            subject, f"it lacks fields of tfdist {__version__}: {names}",
            "do not use them, or ask an administrator to upgrade the chart and its CRD",
        )  # fmt: skip
    return ok(subject, f"it has every field of tfdist {__version__}")


def _controller(client: Client) -> Check:
    deployments = _deployments(client.api)
    if deployments is None:
        return _controller_by_jobs(client)
    if not deployments:
        return problem("controller", "it is not installed", "ask an administrator to install the chart of TFDist")
    for deployment in deployments:
        name = f"{deployment['metadata']['namespace']}/{deployment['metadata']['name']}"
        ready, desired = deployment.get("status", {}).get("readyReplicas", 0), deployment["spec"].get("replicas", 1)
        if not ready:
            return problem(
                "controller", f"{name}: none of its {desired} replicas is ready", "check the logs of its pods"
            )
    return ok("controller", f"{name}: {ready} of {desired} replicas ready")


def _deployments(api: ApiServer) -> list[Json] | None:
    """Return the controllers of the cluster, or of the chart's default namespace; None if the user may read neither."""
    for place in ("", f"/namespaces/{_CONTROLLER_NAMESPACE}"):
        try:
            return list(api.items(f"/apis/apps/v1{place}/deployments", {"labelSelector": _CONTROLLER}))
        except Forbidden:
            continue
        except ClientError:
            return None
    return None


def _controller_by_jobs(client: Client) -> Check:
    """Return whether a controller runs, from the statuses that it writes to the jobs of the namespace."""
    try:
        jobs = [job for job in client.list() if not _is_managed_elsewhere(job)]
    except ClientError:
        jobs = []
    now = datetime.now(UTC)
    unobserved = [job for job in jobs if job.status.observed_generation is None]
    if names := [job.name for job in unobserved if now - parse_time(job.created) > _UNSEEN]:
        return problem(
            "controller", f"job {names[0]} has no status: no controller acts on it",
            "ask an administrator whether the controller runs, and in which namespaces",
        )  # fmt: skip
    if len(jobs) > len(unobserved):
        return ok("controller", "you may not see its Deployment; the jobs of the namespace have a status from it")
    return Check(
        "controller", Result.UNKNOWN, "you may not see its Deployment, and the namespace has no jobs that it manages"
    )


def _is_managed_elsewhere(job: Job) -> bool:
    return bool((job.spec.get("runPolicy") or {}).get("managedBy"))


def _storage(api: ApiServer) -> Check:
    classes = list(api.items("/apis/storage.k8s.io/v1/storageclasses"))
    default = [
        storage_class["metadata"]["name"]
        for storage_class in classes
        if (storage_class["metadata"].get("annotations") or {}).get(_DEFAULT_CLASS) == "true"
    ]
    if default:
        return ok("storage", f"default StorageClass {default[0]}")
    return warning("storage", "there is no default StorageClass", "set storageClassName in each PersistentVolumeClaim")


def _gpus(api: ApiServer) -> Check:
    totals: dict[str, int] = {}
    nodes = 0
    for node in api.items("/api/v1/nodes"):
        room = node["status"].get("allocatable") or {}
        gpus = {name: int(room[name]) for name in room if _GPU.fullmatch(name) and str(room[name]).isdecimal()}
        nodes += any(gpus.values())
        for name, number in gpus.items():
            totals[name] = totals.get(name, 0) + number
    if not nodes:
        return warning("GPUs", "no node has GPUs", "jobs that request GPUs wait; install the device plugin")
    text = ", ".join(f"{number} {name}" for name, number in sorted(totals.items()))
    return ok("GPUs", f"{text} on {nodes} node{'s' * (nodes != 1)}")


def _dns(api: ApiServer) -> Check:
    """Check whether the DNS of the cluster has endpoints, which is visible from outside."""
    selector = {"labelSelector": "kubernetes.io/service-name=kube-dns"}
    slices = list(api.items("/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices", selector))
    ready = [
        endpoint
        for endpoint_slice in slices
        for endpoint in endpoint_slice.get("endpoints") or ()
        if (endpoint.get("conditions") or {}).get("ready") is not False
    ]
    if ready:
        return ok("DNS", f"kube-system/kube-dns has {len(ready)} ready endpoint{'s' * (len(ready) != 1)}")
    return warning(
        "DNS", "kube-system/kube-dns has no ready endpoint: replicas cannot find each other by name",
        "check the pods of CoreDNS, if the cluster has no other DNS",
    )  # fmt: skip


class Right(NamedTuple):
    """A verb on a resource of a namespace."""

    verb: str
    resource: str
    group: str = ""

    def __str__(self) -> str:
        """Return it as in a message of the API server."""
        return f"{self.verb} {self.resource}"


def _jobs(*verbs: str) -> tuple[Right, ...]:
    return tuple(Right(verb, PLURAL, GROUP) for verb in verbs)


def _core(resource: str, *verbs: str) -> tuple[Right, ...]:
    return tuple(Right(verb, resource) for verb in verbs)


def _connection(resource: str) -> tuple[Right, ...]:
    return (*_core("pods", "list"), *_core(resource, "get", "create"))


NEEDED: Final[dict[str, tuple[Right, ...]]] = {
    "submit, run": (*_jobs("create", "get"), *_core("configmaps", "create", "get", "patch", "delete")),
    "list, get, wait": _jobs("get", "list", "watch"),
    "describe, events": (*_jobs("get"), *_core("events", "list", "watch")),
    "logs, attach": (*_jobs("get", "watch"), *_core("pods", "list"), *_core("pods/log", "get")),
    "suspend, resume, restart, scale": _jobs("get", "patch"),
    "delete": _jobs("get", "delete"),
    "port-forward, tensorboard, stacks": (
        *_jobs("get"),
        *_core("pods", "list"),
        *_core("pods/portforward", "get", "create"),
    ),
    "shell": (*_jobs("get"), *_core("pods", "list"), *_core("pods/exec", "get", "create")),
}
"""Rights by the commands that need them."""


def check_rights(api: ApiServer, namespace: str, minor: int) -> Iterator[Check]:
    """Yield one check for each group of commands that the user may not use, or one for all.

    Args:
        api: the API server.
        namespace: where the jobs are.
        minor: minor version of Kubernetes.

    Raises:
        ClientError: a request failed.
    """
    results: dict[Right, bool] = {}
    denied: dict[str, list[Right]] = {}
    for commands, rights in NEEDED.items():
        for right in rights:
            if right.verb == "create" and right.resource.startswith("pods/") and minor < _UPGRADE_NEEDS_CREATE:
                continue
            if right not in results:
                results[right] = is_allowed(api, namespace, right)
            if not results[right]:
                denied.setdefault(commands, []).append(right)
    if not denied:
        yield ok(_RIGHTS, f"every command is allowed in namespace {namespace}")
    for commands, rights_ in denied.items():
        missing = ", ".join(map(str, rights_))
        result = Result.PROBLEM if commands.startswith("submit") else Result.WARNING
        remedy = f"ask an administrator for the role edit in namespace {namespace}"
        yield Check(_RIGHTS, result, f"{commands}: you may not {missing}", remedy)


def is_allowed(api: ApiServer, namespace: str, right: Right) -> bool:
    """Return whether the user has a right.

    Raises:
        ClientError: the request failed.
    """
    resource, _, subresource = right.resource.partition("/")
    attributes = {"namespace": namespace, "verb": right.verb, "group": right.group, "resource": resource}
    attributes |= {"subresource": subresource} if subresource else {}
    kind = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
    answer = api.request("POST", _REVIEWS, kind | {"spec": {"resourceAttributes": attributes}})
    return bool(answer["status"].get("allowed"))


def check_namespace(api: ApiServer, namespace: str) -> Check:
    """Return whether a namespace accepts pods, and which pod security it enforces.

    Raises:
        ClientError: the request failed.
    """
    try:
        namespace_object = api.request("GET", f"/api/v1/namespaces/{quote(namespace, safe='')}")
    except NotFound:
        return problem("namespace", f"{namespace} does not exist", "choose one by --namespace, or create it")
    if namespace_object["metadata"].get("deletionTimestamp"):
        return problem("namespace", f"{namespace} is being deleted", "choose another one by --namespace")
    level = (namespace_object["metadata"].get("labels") or {}).get(_ENFORCED)
    if level == "restricted":
        return ok(
            "namespace",
            f"{namespace} enforces the pod security standard restricted: the bundled trainer complies; an image of "
            "your own needs a securityContext",
        )
    return ok("namespace", f"{namespace}{f' enforces the pod security standard {level}' if level else ''}")


def check_quota(api: ApiServer, namespace: str) -> Check:
    """Return whether a quota of a namespace is used up.

    Raises:
        ClientError: the request failed.
    """
    quotas = list(api.items(f"/api/v1/namespaces/{quote(namespace, safe='')}/resourcequotas"))
    usages: list[str] = []
    exhausted: list[str] = []
    for quota in quotas:
        status = quota.get("status") or {}
        for name, hard in (status.get("hard") or {}).items():
            usage = (status.get("used") or {}).get(name, "0")
            text = f"{name} {usage} of {hard}"
            (exhausted if parse_quantity(usage) >= parse_quantity(hard) else usages).append(text)
    if exhausted:
        return warning(
            "quota", f"used up: {', '.join(exhausted)}", "new pods that need it wait: free it, or ask for more"
        )
    if not quotas:
        return ok("quota", "none")
    return ok("quota", f"used: {', '.join(usages)}")
