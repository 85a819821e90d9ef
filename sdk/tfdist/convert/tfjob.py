"""Model of the TFJob, `kubeflow.org/v1`, as far as the conversion reads it.

Types are checked as strictly as by the API server. Unknown fields are allowed, because the conversion reports them
instead of rejecting the job; fields of pods are defined by Kubernetes and are passed on unchanged.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from tfdist.convert.result import AddNote, CannotConvert, Json
from tfdist.validation import FieldError
from tfdist.validation.model_errors import field_error

API_VERSION: Final = "kubeflow.org/v1"
KIND: Final = "TFJob"
MAIN_CONTAINER: Final = "tensorflow"
PORT_NAME: Final = "tfjob-port"

_ONCE_IN_SPEC: Final = (
    "cleanPodPolicy",
    "ttlSecondsAfterFinished",
    "activeDeadlineSeconds",
    "backoffLimit",
    "schedulingPolicy",
)
"""Fields of `spec` that moved to `runPolicy` under the same apiVersion."""

_UNKNOWN_HINTS: Final = {
    "startingDeadlineSeconds": "; to fail a job whose replicas do not start in time, write "
    "runPolicy.startDeadlineSeconds",
}
"""Field that a TFJob ignores -> the field of a TFDistJob that has its meaning."""


class _TFJobModel(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="allow", alias_generator=to_camel)


class Named(_TFJobModel):
    """A part of a pod that is identified by its name."""

    name: str = ""


class TFJobEnvVar(Named):
    """A variable of a container."""

    value: str | None = None


class Port(Named):
    """A port of a container."""

    container_port: int


class Mount(Named):
    """A mount of a container."""

    mount_path: str


class TFJobAction(_TFJobModel):
    """A request of a probe or hook."""

    port: int | str = ""


class Handler(_TFJobModel):
    """A probe or hook."""

    http_get: TFJobAction = TFJobAction()
    tcp_socket: TFJobAction = TFJobAction()


class Lifecycle(_TFJobModel):
    """Hooks of a container."""

    post_start: Handler = Handler()
    pre_stop: Handler = Handler()


class ResizePolicy(_TFJobModel):
    """What happens to a container that is resized."""

    restart_policy: str = ""


class Container(Named):
    """A container."""

    image: str = ""
    command: list[str] | None = None
    args: list[str] | None = None
    env: list[TFJobEnvVar] = Field(default_factory=list)
    ports: list[Port] = Field(default_factory=list)
    volume_mounts: list[Mount] = Field(default_factory=list)
    resources: dict[str, Any] | None = None
    resize_policy: list[ResizePolicy] = Field(default_factory=list)
    startup_probe: Handler = Handler()
    readiness_probe: Handler = Handler()
    liveness_probe: Handler = Handler()
    lifecycle: Lifecycle = Lifecycle()
    security_context: dict[str, Any] | None = None


class PodSpec(_TFJobModel):
    """A pod."""

    containers: list[Container] = Field(default_factory=list)
    init_containers: list[Container] = Field(default_factory=list)
    volumes: list[Named] = Field(default_factory=list)
    scheduler_name: str = ""
    host_network: bool = False
    service_account_name: str = ""
    service_account: str = ""
    automount_service_account_token: bool | None = None
    security_context: dict[str, Any] | None = None


class TFJobTemplateMeta(_TFJobModel):
    """Metadata of pods."""

    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)


class Template(_TFJobModel):
    """The template of a replica type's pods."""

    metadata: TFJobTemplateMeta = TFJobTemplateMeta()
    spec: PodSpec = PodSpec()


class ReplicaSpec(_TFJobModel):
    """One replica type."""

    replicas: int = 1
    template: Template = Template()
    restart_policy: str = ""


class SchedulingPolicy(_TFJobModel):
    """Gang scheduling."""

    min_available: int | None = None
    queue: str = ""
    min_resources: dict[str, Any] | None = None
    priority_class: str = ""
    schedule_timeout_seconds: int | None = None


class TFJobRunPolicy(_TFJobModel):
    """Limits and clean-up policy."""

    clean_pod_policy: str | None = None
    ttl_seconds_after_finished: int | None = None
    active_deadline_seconds: int | None = None
    backoff_limit: int | None = None
    scheduling_policy: SchedulingPolicy = SchedulingPolicy()
    suspend: bool = False
    managed_by: str | None = None


class TFJobSpec(_TFJobModel):
    """Specification of a TFJob."""

    run_policy: TFJobRunPolicy = TFJobRunPolicy()
    success_policy: str = ""
    enable_dynamic_worker: bool = False
    tf_replica_specs: dict[str, ReplicaSpec]


class Meta(_TFJobModel):
    """Metadata of the job."""

    name: str = ""
    namespace: str = ""
    generate_name: str = ""
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)


class TFJob(_TFJobModel):
    """A TFJob."""

    api_version: str
    kind: str
    metadata: Meta
    spec: TFJobSpec


def read(manifest: Mapping[str, Any], add_note: AddNote) -> tuple[TFJob, Json]:
    """Return the parsed TFJob, and its JSON without nulls and with deprecated fields moved to `runPolicy`.

    Raises:
        CannotConvert: not a TFJob, or fields have the wrong type.
    """
    raw = without_nulls(manifest)
    problems = list(_identity(raw))
    if problems:
        raise CannotConvert(problems)
    _move_old_fields(raw, add_note)
    try:
        job = TFJob.model_validate(raw)
    except ValidationError as error:
        raise CannotConvert([field_error(e, TFJob) for e in error.errors()]) from None
    for path in _unknown(job):
        hint = _UNKNOWN_HINTS.get(path.rpartition(".")[2], "")
        add_note(path, f"unknown to TFJob v1; dropped{hint}")
    return job, raw


def _identity(raw: Any) -> Iterator[FieldError]:
    if not isinstance(raw, dict):
        yield FieldError("", f"a manifest is a mapping with apiVersion, kind and spec; got {type(raw).__name__}")
        return
    version, kind = raw.get("apiVersion"), raw.get("kind")
    if kind != KIND:
        yield FieldError("kind", f"only a {KIND} can be converted; got {kind or 'no kind'}")
    elif version != API_VERSION:
        yield FieldError(
            "apiVersion",
            f"{version} is not supported; write {API_VERSION}, and migrate the fields to that version first "
            "(limits and clean-up are in spec.runPolicy, replica types are the keys of spec.tfReplicaSpecs)",
        )


def _move_old_fields(raw: Json, add_note: AddNote) -> None:
    spec = raw.get("spec")
    if not isinstance(spec, dict):
        return
    policy = spec.setdefault("runPolicy", {})
    for name in _ONCE_IN_SPEC:
        if name in spec and isinstance(policy, dict):
            value = spec.pop(name)
            moves = name not in policy
            policy.setdefault(name, value)
            action = "read as" if moves else "dropped in favour of"
            add_note(f"spec.{name}", f"deprecated since runPolicy exists; {action} spec.runPolicy.{name}")


def _unknown(job: TFJob) -> Iterator[str]:
    """Yield the paths of unknown fields outside of pod templates."""
    parts: list[tuple[str, BaseModel]] = [
        ("spec", job.spec),
        ("spec.runPolicy", job.spec.run_policy),
        ("spec.runPolicy.schedulingPolicy", job.spec.run_policy.scheduling_policy),
    ]
    for key, replica in job.spec.tf_replica_specs.items():
        path = f"spec.tfReplicaSpecs.{key}"
        parts += [(path, replica), (f"{path}.template", replica.template)]
    yield from (name for name in job.model_extra or {} if name != "status")
    for path, part in parts:
        yield from (f"{path}.{name}" for name in part.model_extra or {})


def without_nulls(value: Any) -> Any:
    """Return a copy without nulls, which exported manifests contain, such as `creationTimestamp: null`."""
    if isinstance(value, Mapping):
        return {k: without_nulls(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [without_nulls(v) for v in value if v is not None]
    return value
