"""A job as the API server has it, and its outcome."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from tfdist import outcome
from tfdist.api.status import (
    EvaluationResult,
    ExportStatus,
    FunctionResult,
    JobPhase,
    ReplicaFailure,
    TFDistJobStatus,
)
from tfdist.client.errors import NotPossible
from tfdist.client.stored import Workload
from tfdist.contract import FUNCTION_SCRIPT
from tfdist.printable import printable
from tfdist.render.names import RESTART_ANNOTATION

if TYPE_CHECKING:
    from tfdist.render.gang import Gang


@dataclass(frozen=True)
class Job(Workload):
    """A stored job: its manifest, and the typed status."""

    @cached_property
    def status(self) -> TFDistJobStatus:
        """The status. Fields that this version does not know are left out."""
        return outcome.read_status(self.manifest.get("status") or {})

    @property
    def phase(self) -> JobPhase:
        """The phase; Pending before the controller has seen the job."""
        return self.status.phase or JobPhase.PENDING

    @property
    def is_suspended(self) -> bool:
        """Whether the specification suspends the job."""
        return bool((self.spec.get("runPolicy") or {}).get("suspend"))

    @cached_property
    def gangs(self) -> "Sequence[Gang]":
        """The gangs that the specification has; an invalid one has none."""
        # A tenth of a second to import, which a list of jobs does not need.
        from tfdist.api.v1 import TFDistJob  # noqa: PLC0415
        from tfdist.render.gang import gangs  # noqa: PLC0415

        try:
            return gangs(
                TFDistJob.model_validate({key: self.manifest[key] for key in self.manifest if key != "status"})
            )
        except ValidationError:
            return ()

    @property
    def replica_names(self) -> list[str]:
        """Names of all replicas that the specification has, in the order of their start."""
        return [member.name for gang in self.gangs for member in gang.members]

    @property
    def calls_function(self) -> bool:
        """Whether the job calls a function of `tfdist.job`."""
        return calls_function(self.spec)

    @property
    def is_restarting_on_request(self) -> bool:
        """Whether the controller has not acted yet on the last request for a restart."""
        annotations = self.manifest["metadata"].get("annotations") or {}
        return annotations.get(RESTART_ANNOTATION, self.status.restarted_at) != self.status.restarted_at

    def has_reached(self, phases: Collection[str]) -> bool:
        """Return whether the stored specification, and the last request for a restart, have led to one of `phases`."""
        return super().has_reached(phases) and not self.is_restarting_on_request

    @property
    def message(self) -> str:
        """The reason of the phase, or what the job waits for."""
        return (self.status.summary.message if self.status.summary else None) or ""

    @property
    def loss(self) -> str:
        """What the job loses when its replicas end, because it has no checkpoints; "" if it loses nothing known."""
        step = self.status.progress.step if self.status.progress else None
        if self.spec.get("checkpoint") or not step or self.is_finished:
            return ""
        return (
            f"{self.name} has no spec.checkpoint: it begins again at step 0, and loses {step} steps, unless its "
            "program saves and restores by itself; submit it with spec.checkpoint to keep the steps of the next run"
        )

    @property
    def exit_code(self) -> int:
        """Exit code of a finished job, see `outcome.exit_code`."""
        return outcome.exit_code(self.status)


def calls_function(spec: Mapping[str, Any]) -> bool:
    """Return whether a specification is of jobs that call a function of `tfdist.job`."""
    return (spec.get("training") or {}).get("script") == FUNCTION_SCRIPT


@dataclass(frozen=True, slots=True)
class JobResult:
    """The outcome of a job that has succeeded."""

    phase: JobPhase
    evaluation: EvaluationResult | None
    """The evaluation of the last checkpoint, or the latest one."""
    export: ExportStatus | None
    failures: tuple[ReplicaFailure, ...]
    """The last failures that the job has survived, oldest first."""


def result_of(job: Job) -> JobResult:
    """Return the outcome of a job."""
    evaluation = job.status.evaluation
    result = (evaluation.final or evaluation.latest) if evaluation else None
    return JobResult(job.phase, result, job.status.export, tuple(job.status.failures or ()))


def returned_value(name: str, result: FunctionResult | None) -> Any:
    """Return what the function of a job that has succeeded has returned.

    Args:
        name: of the job.
        result: `status.functionResult` of the job.

    Raises:
        NotPossible: the status does not have the value; the message says why.
    """
    if result is None or result.value is None:
        lost = "it was not recorded, because the pod was gone before the controller had read it"
        problem = (result.problem if result else None) or lost
        raise NotPossible(f'job "{name}" has no result: {printable(problem)}')
    try:
        return json.loads(result.value)
    except ValueError as error:
        raise NotPossible(f'job "{name}" has a result that is not JSON: {error}') from None


def described(job: Job) -> list[str]:
    """Return a job in few words: name, phase, progress, and the reason of its phase or what it waits for."""
    summary = job.status.summary
    parts = (job.name, str(job.phase), (summary.progress if summary else None) or "", printable(job.message))
    return [part for part in parts if part]
