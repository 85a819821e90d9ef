"""What the controller does when: limits, clean-up, success, failure, elasticity, scheduling."""

from enum import StrEnum
from typing import Annotated, Any, Final, Literal

from pydantic import Field, PlainValidator, StringConstraints, WithJsonSchema
from pydantic_core import PydanticCustomError

from tfdist.api import patterns
from tfdist.api.base import SET, ApiModel, Check
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
"""What `runPolicy.managedBy` says of a job of this controller."""


def _auto_or_seconds(value: Any) -> int | str:
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= INT32_MAX:
        return value
    if value == "Auto":
        return "Auto"
    raise PydanticCustomError("auto_or_seconds", "write a number of seconds from 1, or Auto")


AutoOrSeconds = Annotated[
    int | str,
    PlainValidator(_auto_or_seconds),
    WithJsonSchema(
        {
            "x-kubernetes-int-or-string": True,
            "x-kubernetes-validations": [
                {
                    "rule": f"self == 'Auto' || (type(self) == int && int(self) >= 1 && int(self) <= {INT32_MAX})",
                    "message": "write a number of seconds from 1, or Auto",
                }
            ],
        }
    ),
]
"""Seconds, or `Auto`."""


class RunPolicy(ApiModel):
    """Limits and clean-up."""

    suspend: Boolean = False
    """Stop the pods and keep the job; false again resumes from the last checkpoint."""
    start_deadline_seconds: Seconds | None = None
    """Fail when not all replicas have started within so many seconds. Without it they are waited for without end, but
    an image that cannot be pulled and a container that cannot be made fail the job after 300 s."""
    active_deadline_seconds: Seconds | None = None
    """Fail when active for more seconds, from the start or the last resume; without it there is no limit."""
    progress_deadline_seconds: AutoOrSeconds | None = None
    """Restart the gang when no step ends for so many seconds, as in a hang; `Auto` learns the number from the first
    steps. Without it a hang is not noticed. Needs the bundled trainer, or a program that reports its steps."""
    backoff_limit: Annotated[Natural, Field(le=1000)] = 3
    """Restarts after which the next failure ends the job. Crashes count, evictions and lost nodes do not; the count
    begins anew with each new checkpoint."""
    standby: Boolean = False
    """Keep the program of the next start ready beside each that trains: a restart in place then takes about a
    second, and each replica needs the memory of two. For the bundled trainer, on CPUs, with checkpoints."""
    clean_pod_policy: Literal["Running", "All", "None"] = "Running"
    """Which pods are deleted when the job has ended: those that still run, all, or none. Logs go with their pods."""
    keep_failed_pods: Annotated[Natural, Field(le=100)] = 3
    """Number of failed pods of earlier attempts that are kept for their logs, the newest."""
    ttl_seconds_after_finished: Natural | None = None
    """Delete the job, and all that belongs to it, so many seconds after its end; without it the job is kept."""
    managed_by: Annotated[str, StringConstraints(max_length=63, pattern=patterns.MANAGER)] | None = None
    """Which controller runs the job: without it or with `tfdist.dev/controller` this one, with any other value another,
    such as Kueue's `kueue.x-k8s.io/multikueue`. Cannot change."""


class ExitCodes(ApiModel):
    """Exit codes of the container `tensorflow`."""

    checks = (
        Check(
            "self.operator != 'In' || !(0 in self.values)",
            "exit code 0 is success and never a failure: remove 0",
            ".values",
            lambda self: self.operator != "In" or 0 not in self.values,
        ),
    )

    operator: Literal["In", "NotIn"]
    """Whether the code must be among `values` or not."""
    values: Annotated[
        list[Annotated[Natural, Field(le=255)]], Field(min_length=1, max_length=255, json_schema_extra=SET), distinct()
    ]
    """The codes; one that a signal ends has 128 and its number, such as 137 for SIGKILL."""


class PodConditionPattern(ApiModel):
    """A condition of a pod."""

    type: Annotated[str, StringConstraints(min_length=1, max_length=316)]
    """Type, such as `DisruptionTarget`."""
    status: Literal["True", "False", "Unknown"] = "True"
    """Status that it must have."""


class FailureRule(ApiModel):
    """What to do about a failure that meets all that the rule names."""

    checks = (
        Check(
            "has(self.onExitCodes) || has(self.onPodConditions) || has(self.onMessagePattern)",
            "a rule needs something to match: set onExitCodes, onPodConditions or onMessagePattern",
            "",
            lambda self: any(
                x is not None for x in (self.on_exit_codes, self.on_pod_conditions, self.on_message_pattern)
            ),
        ),
    )

    action: Literal["FailJob", "Restart", "RestartWithoutCount", "Ignore"]
    """`FailJob`: end the job at once; `Restart`: restart what the strategy restarts, counted by
    `runPolicy.backoffLimit`; `RestartWithoutCount`: the same, not counted; `Ignore`: the replica counts as
    succeeded."""
    on_exit_codes: ExitCodes | None = None
    """Exit codes of the container `tensorflow`."""
    on_pod_conditions: Annotated[list[PodConditionPattern] | None, Field(min_length=1, max_length=20)] = None
    """Conditions of the pod, any of which is enough."""
    on_message_pattern: Annotated[str | None, StringConstraints(min_length=1, max_length=256)] = None
    """Regular expression (RE2's syntax) that is found anywhere in the termination message."""
    roles: Annotated[list[Role] | None, Field(min_length=1, max_length=5, json_schema_extra=SET), distinct()] = None
    """Roles that the rule is for; without it all."""


class FailurePolicy(ApiModel):
    """The job's own rules, before the defaults; the first that matches wins."""

    rules: Annotated[list[FailureRule], Field(min_length=1, max_length=20)]
    """Rules in order."""


class SuccessPolicy(StrEnum):
    """Whose success is the job's."""

    CHIEF = "Chief"
    ALL_WORKERS = "AllWorkers"


class OomPolicy(ApiModel):
    """More memory for the next attempt of a replica that was killed for want of it."""

    memory_factor: Annotated[float, Field(gt=1, le=10, strict=True)] = 1.5
    """Factor by which the memory grows with each out-of-memory kill."""
    max_memory: Quantity | None = None
    """Most memory that it grows to, such as `64Gi`; without it no limit."""


class ElasticSpec(ApiModel):
    """Run with as many workers as can be had, by a checkpointed restart; the global batch stays the same."""

    checks = (
        Check(
            "!has(self.maxWorkers) || self.minWorkers <= self.maxWorkers",
            "minWorkers is more than maxWorkers: lower it or raise maxWorkers",
            ".minWorkers",
            lambda self: self.max_workers is None or self.min_workers <= self.max_workers,
        ),
    )

    min_workers: Replicas = 1
    """Fewest workers to run with; when not even those can be had, the job waits."""
    max_workers: Replicas | None = None
    """Most workers to run with; without it `worker.replicas`."""


class SchedulingSpec(ApiModel):
    """How the gang gets its place in the cluster; evaluator and TensorBoard are never part of it."""

    gang: Literal["Auto", "None", "Native", "Kueue", "Volcano", "Coscheduling"] = "Auto"
    """Who sees to it that all replicas start or none: Kubernetes itself (`Native`), Kueue, Volcano, or the scheduler
    plugin Coscheduling. `None`: each pod starts when it can; `Auto`: what the cluster has, else `None`."""
    queue: DnsName | None = None
    """Queue of Kueue or Volcano that the job waits in."""
    priority_class_name: DnsName | None = None
    """Name of the PriorityClass of the pods: who is evicted for whom; without it the cluster's default."""
    min_available: Count | None = None
    """Replicas that must have a place before any starts; without it all."""
    topology_key: QualifiedName | None = None
    """Label of nodes whose value all replicas should share, such as `topology.kubernetes.io/rack`: preferred, not
    required."""
    timeout_seconds: Seconds | None = None
    """Seconds for which the scheduler holds a gang's places while it waits for the rest; without it its own default."""
