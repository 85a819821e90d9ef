"""Policies of a job: limits, clean-up, success, failure, elasticity, scheduling."""

from enum import StrEnum
from typing import Annotated, Any, Final, Literal

from pydantic import Field, PlainValidator, StringConstraints, WithJsonSchema
from pydantic_core import PydanticCustomError

from tfdist.api import patterns
from tfdist.api.base import SET, ApiModel, CrossFieldRule
from tfdist.api.scalars import (
    INT32_MAX,
    Boolean,
    Count,
    DnsName,
    Natural,
    QualifiedName,
    Quantity,
    Replicas,
    Seconds,
    distinct,
)
from tfdist.contract import Role

CONTROLLER_NAME: Final = "tfdist.dev/controller"
"""Value of `runPolicy.managedBy` that selects this controller."""


def is_foreign(managed_by: str | None) -> bool:
    """Return whether another controller manages a job: this one neither writes its status nor knows from it."""
    return managed_by not in {None, CONTROLLER_NAME}


AUTO_OR_SECONDS: Final = "must be a number of seconds of at least 1, or Auto"


def _auto_or_seconds(value: Any) -> int | str:
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= INT32_MAX:
        return value
    if value == "Auto":
        return "Auto"
    raise PydanticCustomError("auto_or_seconds", AUTO_OR_SECONDS)


AutoOrSeconds = Annotated[
    int | str,
    PlainValidator(_auto_or_seconds),
    WithJsonSchema(
        {
            "x-kubernetes-int-or-string": True,
            "x-kubernetes-validations": [
                {
                    "rule": f"self == 'Auto' || (type(self) == int && int(self) >= 1 && int(self) <= {INT32_MAX})",
                    "message": AUTO_OR_SECONDS,
                }
            ],
        }
    ),
]
"""Seconds, or `Auto`."""


class RunPolicy(ApiModel):
    """Deadlines, restart limit, suspension and clean-up."""

    suspend: Boolean = False
    """Suspend the job: its pods save a checkpoint if they can and are deleted. Setting it to false resumes from the
    last checkpoint."""
    start_deadline_seconds: Seconds | None = None
    """Seconds within which all replicas must have started, otherwise the job fails. Defaults to no deadline; but an
    image that cannot be pulled, or a container that cannot be created, always fails the job after 300 s."""
    active_deadline_seconds: Seconds | None = None
    """Seconds that the job may be active, since its start or since it was last resumed, before it fails. Defaults to no
    deadline."""
    progress_deadline_seconds: AutoOrSeconds | None = None
    """Seconds within which a training step must complete, otherwise the gang is restarted. `Auto` is ten times the
    longest pause so far: at least two hours before the first step, then 30 minutes, and after five changes of progress
    two minutes in training. Defaults to no deadline: the condition `Running` reports a hang, but nothing is restarted.
    Requires the bundled trainer, or a program that reports its steps."""
    backoff_limit: Annotated[Natural, Field(le=1000)] = 3
    """Number of counted restarts without a new checkpoint before the job fails. Crashes count; evictions and lost nodes
    do not. Every new checkpoint resets the counter."""
    standby: Boolean = False
    """Keep a standby process next to each training process: an in-place restart then takes about a second, and each
    replica needs memory for two processes. Requires the bundled trainer, checkpoints, and replicas without GPUs."""
    update_strategy: Literal["OnRestart", "Restart", "InPlace"] = "OnRestart"
    """When a change of the pods takes effect. `OnRestart`: at the next attempt, whatever its reason; `Restart`:
    immediately, by a restart that does not count; `InPlace`: planned, rejected by this version. A change of deadlines
    and other policies always takes effect immediately."""
    clean_pod_policy: Literal["Running", "All", "None"] = "Running"
    """Pods to delete when the job finishes: `Running` pods, `All` or `None`. The logs of a pod are deleted with it."""
    keep_failed_pods: Annotated[Natural, Field(le=100)] = 3
    """Number of failed pods of earlier attempts to keep for their logs, newest first."""
    ttl_seconds_after_finished: Natural | None = None
    """Seconds after the end of the job at which it is deleted with all its objects. Defaults to never."""
    managed_by: Annotated[str, StringConstraints(max_length=63, pattern=patterns.MANAGER)] | None = None
    """Controller that manages the job. With `tfdist.dev/controller`, or if not set, this one; with any other value,
    such as `kueue.x-k8s.io/multikueue`, this controller ignores the job. Immutable."""


class ExitCodes(ApiModel):
    """Exit codes of the container `tensorflow`."""

    cross_field_rules = (
        CrossFieldRule(
            "self.operator != 'In' || !(0 in self.values)",
            "exit code 0 is not a failure; remove it",
            ".values",
            lambda self: self.operator != "In" or 0 not in self.values,
        ),
    )

    operator: Literal["In", "NotIn"]
    """`In`: the exit code must be one of `values`; `NotIn`: it must be none of them."""
    values: Annotated[
        list[Annotated[Natural, Field(le=255)]], Field(min_length=1, max_length=255, json_schema_extra=SET), distinct()
    ]
    """Exit codes, 0 to 255. The exit code of a process that a signal ended is 128 plus the signal's number, such as 137
    for SIGKILL. 0 is not allowed with `In`."""


class PodConditionPattern(ApiModel):
    """A pod condition to match."""

    type: Annotated[str, StringConstraints(min_length=1, max_length=316)]
    """Condition type, such as `DisruptionTarget`."""
    status: Literal["True", "False", "Unknown"] = "True"
    """Required status of the condition: `True`, `False` or `Unknown`."""


class FailureRule(ApiModel):
    """A rule of the failure policy: an action, and the criteria that a failure must meet, all of them."""

    cross_field_rules = (
        CrossFieldRule(
            "has(self.onExitCodes) || has(self.onPodConditions) || has(self.onMessagePattern)",
            "a rule requires a criterion; set onExitCodes, onPodConditions or onMessagePattern",
            "",
            lambda self: any(
                x is not None for x in (self.on_exit_codes, self.on_pod_conditions, self.on_message_pattern)
            ),
        ),
    )

    action: Literal["FailJob", "Restart", "RestartWithoutCount", "AvoidNode", "Ignore"]
    """Action for a matching failure. `FailJob`: fail the job; `Restart`: restart the replicas that the strategy
    restarts together, counted against `runPolicy.backoffLimit`; `RestartWithoutCount`: the same without counting;
    `AvoidNode`: as `Restart`, but never in the same pod: the new one, and all later pods of the job, prefer other
    nodes; `Ignore`: treat the replica as succeeded."""
    on_exit_codes: ExitCodes | None = None
    """Matches exit codes of the container `tensorflow`."""
    on_pod_conditions: Annotated[list[PodConditionPattern] | None, Field(min_length=1, max_length=20)] = None
    """Matches conditions of the pod; one of them must match."""
    on_message_pattern: Annotated[str | None, StringConstraints(min_length=1, max_length=256)] = None
    """Regular expression (RE2 syntax) to search in the termination message."""
    roles: Annotated[list[Role] | None, Field(min_length=1, max_length=5, json_schema_extra=SET), distinct()] = None
    """Roles that the rule applies to: `chief`, `worker`, `ps`, `evaluator`, `evaluation`. Defaults to all."""


class FailurePolicy(ApiModel):
    """Rules for failures, evaluated in order before the default classification; the first match applies."""

    rules: Annotated[list[FailureRule], Field(min_length=1, max_length=20)]
    """Rules in order of evaluation."""


class SuccessPolicy(StrEnum):
    """Replicas whose success completes the job."""

    CHIEF = "Chief"
    ALL_WORKERS = "AllWorkers"


class OomPolicy(ApiModel):
    """Planned: increase the memory of a replica that was killed because it ran out of memory."""

    memory_factor: Annotated[float, Field(gt=1, le=10, strict=True)] = 1.5
    """Factor by which memory requests and limits grow with each out-of-memory kill."""
    max_memory: Quantity | None = None
    """Largest memory limit, such as `64Gi`. Defaults to no limit."""


class ElasticSpec(ApiModel):
    """Planned: run with a variable number of workers, by restarts from a checkpoint; the global batch size is kept."""

    min_workers: Replicas = 1
    """Smallest number of workers; the job waits while fewer can be scheduled."""
    max_workers: Replicas | None = None
    """Largest number of workers. Defaults to `worker.replicas`."""


class SchedulingSpec(ApiModel):
    """Scheduling of the gang. Evaluator and TensorBoard are not part of the gang."""

    gang: Literal["Auto", "None", "Native", "Kueue", "Volcano", "Coscheduling", "KAI"] = "Auto"
    """Gang scheduler, which starts all replicas or none. `Kueue`: the job waits in `queue` until Kueue admits it.
    `Native`: Kubernetes' own scheduler, with a PodGroup of `scheduling.k8s.io`. `Volcano`: Volcano, with its PodGroup,
    in `queue`. `Coscheduling`: the plugin of scheduler-plugins with this name. `KAI`: KAI Scheduler, with its
    PodGroup, in `queue`. `None`: each pod starts when it is scheduled. `Auto`: with a `queue`, `Kueue` if it is
    installed, else `Volcano`; without one, `Volcano` with pods of `schedulerName: volcano` and `Native` with pods of
    the default scheduler, each if the API server serves its PodGroups, else `None`, as for strategy `Independent`
    without `minAvailable`."""
    queue: DnsName | None = None
    """LocalQueue of Kueue, or queue of Volcano or KAI, that the job waits in; requires `gang` `Kueue`, `Volcano`, `KAI`
    or `Auto`. Defaults, with `Kueue`, to the label `kueue.x-k8s.io/queue-name` of the job, with `KAI` to
    `default-queue`; else to `default`."""
    priority_class_name: DnsName | None = None
    """PriorityClass of the pods. Defaults to the cluster's default class."""
    min_available: Count | None = None
    """Number of replicas of the gang that a gang scheduler starts together. Without a gang scheduler, this number of
    replicas keep their nodes while the others wait for theirs. Defaults to all; with strategy `Independent`, to 1."""
    topology_key: QualifiedName | None = None
    """Node label whose value all replicas should share, such as `topology.kubernetes.io/rack`. A preference, not a
    requirement."""
    timeout_seconds: Seconds | None = None
    """Seconds after which a gang releases its nodes if fewer than `minAvailable` replicas have one and other jobs
    wait for nodes; the oldest of these jobs keeps its nodes twice as long. It starts again after a delay, which does
    not count as a restart. Defaults to 300. If it is set, it is also the `scheduleTimeoutSeconds` of a PodGroup of
    `Coscheduling`."""
