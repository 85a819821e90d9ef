"""A sweep as the API server has it, and the results of its trials."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from tfdist import outcome
from tfdist.api.status import FunctionResult
from tfdist.api.sweep_resource import trial_name
from tfdist.api.sweep_status import SweepCondition, SweepPhase, TFDistSweepStatus, TrialPhase
from tfdist.client.errors import JobFailed
from tfdist.client.job import calls_function, returned_value
from tfdist.client.stored import Workload
from tfdist.reasons import SweepReason

_FAILED: Final = 1
_PREFIX: Final = "parameters."
_FIRST: Final = ("trial", "job", "phase", "value", "step")
_LAST: Final = ("reason", "checkpoint", "gpuSeconds", "cpuSeconds")


@dataclass(frozen=True)
class Sweep(Workload):
    """A stored sweep: its manifest, and the typed status."""

    @cached_property
    def status(self) -> TFDistSweepStatus:
        """The status. Fields that this version does not know are left out."""
        return outcome.readable(TFDistSweepStatus, self.manifest.get("status") or {})

    @property
    def phase(self) -> SweepPhase:
        """The phase; Pending before the controller has seen the sweep."""
        return self.status.phase or SweepPhase.PENDING

    @property
    def condition(self) -> SweepCondition | None:
        """The condition that explains the phase."""
        true = (item for item in self.status.conditions or () if item.status == "True")
        return next((item for item in true if str(item.type) == str(self.phase)), None)

    @property
    def message(self) -> str:
        """The reason of the phase."""
        return self.condition.message if self.condition else ""

    @property
    def exit_code(self) -> int:
        """Exit code of a finished sweep: 0 if it succeeded, 124 if it exceeded its deadline, otherwise 1."""
        if self.phase is SweepPhase.SUCCEEDED:
            return 0
        exceeded_deadline = self.condition is not None and self.condition.reason == SweepReason.ACTIVE_DEADLINE_EXCEEDED
        return outcome.DEADLINE_EXCEEDED if exceeded_deadline else _FAILED

    @property
    def loss(self) -> str:
        """What its jobs lose when the sweep is suspended, because they have no checkpoints; "" for nothing known."""
        running = self.status.trials.running if self.status.trials else 0
        if _template(self.spec).get("checkpoint") or not running or self.is_finished:
            return ""
        return (
            f"{self.name} has no spec.template.spec.checkpoint: jobs that run ({running}) begin again at step 0, and "
            "lose their steps, unless their program saves and restores by itself"
        )

    @property
    def metric(self) -> str:
        """The metric that compares the trials, with its default; "" for none."""
        return str(self.spec.get("metric") or _evaluation(self.spec).get("metric") or "")

    @property
    def maximizes(self) -> bool:
        """Whether a larger metric is better, as `TFDistSweepSpec.maximizes`."""
        evaluation = _evaluation(self.spec)
        default = evaluation.get("goal") if evaluation.get("metric") == self.metric else None
        return (self.spec.get("goal") or default or "Maximize") == "Maximize"

    @property
    def calls_function(self) -> bool:
        """Whether its jobs call a function of `tfdist.job`."""
        return calls_function(_template(self.spec))

    def results(
        self, *, best_first: bool | None = None, returned: Mapping[int, FunctionResult] | None = None
    ) -> "list[Trial]":
        """Return the trials that were created.

        Args:
            best_first: the best first, then those without a value, then those that failed; otherwise by number.
                Default: the best first if a metric compares the trials.
            returned: what the functions of the jobs have returned, by number of the trial.
        """
        checkpoints = {best.trial: best.checkpoint for best in self.status.best or ()}
        trials = [
            Trial(
                number=result.trial,
                job=trial_name(self.name, result.trial),
                phase=result.phase,
                parameters=result.parameters,
                value=result.value,
                step=result.step,
                reason=result.reason or "",
                checkpoint=checkpoints.get(result.trial),
                gpu_seconds=result.gpu_seconds,
                cpu_seconds=result.cpu_seconds,
                returned=(returned or {}).get(result.trial),
            )
            for result in self.status.results or ()
        ]
        by_merit = bool(self.metric) if best_first is None else best_first
        return sorted(trials, key=lambda t: _merit(t, maximizes=self.maximizes) if by_merit else t.number)


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of one trial, which remains if its job is deleted."""

    number: int
    """From 0."""
    job: str
    """Name of its job."""
    phase: TrialPhase
    parameters: Mapping[str, Any]
    """Its values by parameter name."""
    value: float | None
    """Best value of the metric so far."""
    step: int | None
    """Training step of that value."""
    reason: str
    """Reason of its end; "" while it runs, or without one."""
    checkpoint: str | None
    """Path of the checkpoint with that value, of the `keepBest` best trials."""
    gpu_seconds: float | None
    cpu_seconds: float | None
    returned: FunctionResult | None = None
    """What the function of its job has returned, of a sweep that `map` of a function has made."""

    @property
    def _has_result(self) -> bool:
        return self.phase is TrialPhase.SUCCEEDED and self.returned is not None and self.returned.value is not None

    @property
    def result(self) -> Any:
        """What the function of its job has returned.

        Raises:
            JobFailed: the trial has not succeeded.
            NotPossible: the status of the job does not have the value; the message says why.
        """
        if self.phase is not TrialPhase.SUCCEEDED:
            raise JobFailed(f"{self.job} {self.phase.lower()}{f': {self.reason}' if self.reason else ''}")
        return returned_value(self.job, self.returned)

    def document(self) -> dict[str, Any]:
        """Return the trial as JSON, with the names of `status.results`; fields without a value are left out.

        `result` is what its function has returned.
        """
        fields = {
            "trial": self.number,
            "job": self.job,
            "phase": str(self.phase),
            "parameters": dict(self.parameters),
            "value": self.value,
            "step": self.step,
            "reason": self.reason or None,
            "checkpoint": self.checkpoint,
            "result": self.result if self._has_result else None,
            "gpuSeconds": self.gpu_seconds,
            "cpuSeconds": self.cpu_seconds,
        }
        return {name: value for name, value in fields.items() if value is not None}


def rows(trials: Sequence[Trial]) -> list[dict[str, Any]]:
    """Return the trials as flat rows with the same `columns`, as `pandas.DataFrame(rows)` reads them.

    A parameter is the column `parameters.NAME`, the name that `pandas.json_normalize` gives it. What a trial does not
    have is None.
    """
    names = columns(trials)
    return [_row(trial, names) for trial in trials]


def columns(trials: Sequence[Trial]) -> list[str]:
    """Return the names of the columns of `rows`."""
    results = ("result",) if any(trial.returned for trial in trials) else ()
    return [*_FIRST, *(f"{_PREFIX}{name}" for name in parameter_names(trials)), *results, *_LAST]


def parameter_names(trials: Sequence[Trial]) -> list[str]:
    """Return the names of the parameters of trials, each once."""
    return list(dict.fromkeys(name for trial in trials for name in trial.parameters))


def _row(trial: Trial, names: Sequence[str]) -> dict[str, Any]:
    values = trial.document()
    values |= {f"{_PREFIX}{name}": value for name, value in trial.parameters.items()}
    return {name: values.get(name) for name in names}


def _template(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the specification that the jobs get."""
    return (spec.get("template") or {}).get("spec") or {}


def _evaluation(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return `evaluation` of the template with its defaults; empty without it."""
    evaluation = _template(spec).get("evaluation")
    return {} if evaluation is None else {"metric": "accuracy", "goal": "Maximize"} | evaluation


def _merit(trial: Trial, *, maximizes: bool) -> tuple[bool, bool, float, int]:
    """Return a key that sorts better trials first."""
    value = trial.value
    if value is None or not math.isfinite(value):
        return trial.phase is TrialPhase.FAILED, True, 0.0, trial.number
    return trial.phase is TrialPhase.FAILED, False, -value if maximizes else value, trial.number
