"""The TFDistSweep resource, `tfdist.dev/v1alpha1`: trials of one TFDistJob with different values of parameters."""

from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import Field, StringConstraints

from tfdist.api.base import ApiModel, CrossFieldRule, list_map
from tfdist.api.patterns import JOB_NAME
from tfdist.api.scalars import Boolean, Count, Name, Natural, Seconds, distinct
from tfdist.api.sweep_parameters import Number, SweepParameter, Value
from tfdist.api.sweep_resource import MAX_PARAMETERS, MAX_RUNGS, MAX_SWEEP_NAME, MAX_TRIALS
from tfdist.api.training import EvaluationMode
from tfdist.api.v1 import ObjectMeta, TFDistJobSpec

DEFAULT_TRIALS: Final = 10
DEFAULT_REDUCTION: Final = 3
DEFAULT_MIN_TRIALS: Final = 5

Trials = Annotated[Count, Field(le=MAX_TRIALS)]
Goal = Literal["Maximize", "Minimize"]


class SearchMethod(StrEnum):
    """How the values of the trials are chosen."""

    RANDOM = "Random"
    GRID = "Grid"
    LIST = "List"


class SearchSpec(ApiModel):
    """The trials of a sweep: how many there are, and how their values are chosen."""

    cross_field_rules = (
        CrossFieldRule(
            "(self.method == 'List') == has(self.list)",
            "method List requires list, and list requires method List; change method, or list",
            ".list",
            lambda self: (self.method is SearchMethod.LIST) == (self.trial_values is not None),
            on_server=False,
        ),
    )

    method: SearchMethod = SearchMethod.RANDOM
    """How the values are chosen. `Random`: independently for each trial; `Grid`: every combination of the values, with
    the last parameter varying fastest; `List`: the values in `list`."""
    trials: Trials | None = None
    """Number of trials, at most 500. Defaults to 10 for `Random`, to all combinations for `Grid` and to the length of
    `list` for `List`. A smaller number runs the first trials; a larger number than there are combinations or items is
    rejected."""
    seed: Natural = 0
    """Seed of `Random`. The values of a trial depend on the seed, its number and the parameters only."""
    trial_values: Annotated[
        list[Annotated[dict[str, Value], Field(min_length=1, max_length=MAX_PARAMETERS)]] | None,
        Field(alias="list", min_length=1, max_length=MAX_TRIALS),
    ] = None
    """Values of each trial by parameter name, for `List`: each item has a value for every parameter, and for no
    other."""


class StoppingMethod(StrEnum):
    """Rule by which trials are stopped early."""

    ASHA = "Asha"
    MEDIAN = "Median"


class SweepEarlyStopping(ApiModel):
    """Stops trials that are worse than the others at the same training step, by suspending their jobs."""

    cross_field_rules = (
        CrossFieldRule(
            "self.method == 'Asha' || (!has(self.reduction) && !has(self.maxRungs))",
            "reduction and maxRungs require method Asha; change method, or remove them",
            ".method",
            lambda self: self.method is StoppingMethod.ASHA or (self.reduction is None and self.max_rungs is None),
        ),
        CrossFieldRule(
            "self.method == 'Median' || !has(self.minTrials)",
            "minTrials requires method Median; change method, or remove it",
            ".minTrials",
            lambda self: self.method is StoppingMethod.MEDIAN or self.min_trials is None,
        ),
        CrossFieldRule(
            "!self.resume || self.method == 'Asha'",
            "resume requires method Asha; change method, or remove resume",
            ".resume",
            lambda self: not self.resume or self.method is StoppingMethod.ASHA,
        ),
    )

    method: StoppingMethod
    """Rule for stopping a trial. `Asha`: it is not among the best `1/reduction` of the trials at a rung, which are at
    `minSteps`, `minSteps * reduction`, `minSteps * reduction^2` and so on; `Median`: at one of the first 32 multiples
    of `minSteps`, its best value is worse than the median of the other trials' mean values up to there."""
    min_steps: Count
    """Training steps before which no trial is stopped."""
    reduction: Annotated[int, Field(ge=2, le=100, strict=True)] | None = None
    """Of this number of trials at a rung one continues. Defaults to 3. Requires method `Asha`."""
    max_rungs: Annotated[Count, Field(le=MAX_RUNGS)] | None = None
    """Largest number of rungs; a trial that passes the last one trains to its end. Defaults to 32. Requires
    method `Asha`."""
    min_trials: Trials | None = None
    """Number of other trials that must have reached the step before a trial is stopped. Defaults to 5. Requires method
    `Median`."""
    resume: Boolean = False
    """Resume stopped trials that are among the best of their rung by then, when no new trials are left and fewer than
    `parallelism` run. Requires method `Asha` and checkpoints."""


class CleanTrials(StrEnum):
    """Jobs of finished trials to delete."""

    NONE = "None"
    STOPPED = "Stopped"
    ALL_BUT_BEST = "AllButBest"


class TrialTemplate(ApiModel):
    """The TFDistJob of every trial, before the values of its parameters are set."""

    spec: TFDistJobSpec
    """Specification of the job, with task `Train`. The directories of checkpoints, exports and TensorBoard must contain
    `{name}` or `{uid}`, so that each trial has its own. `runPolicy.suspend` and `runPolicy.ttlSecondsAfterFinished`
    must not be set: the sweep suspends and deletes its jobs."""


class TFDistSweepSpec(ApiModel):
    """Specification of a sweep: a job, the parameters to vary, and the metric that compares the trials."""

    metric: Name | None = None
    """Metric that compares the trials: from `status.evaluation` of the job if the template evaluates, otherwise from
    `status.progress.metrics`. Defaults to `evaluation.metric` of the template; required without `evaluation`, except
    for search method `List`, whose trials need not be compared: then a trial succeeds if its job does."""
    goal: Goal | None = None
    """Whether a larger `metric` is better (`Maximize`) or a smaller one (`Minimize`). Defaults to `evaluation.goal` of
    the template if `metric` is its `evaluation.metric`, otherwise to `Maximize`."""
    parameters: Annotated[
        list[SweepParameter],
        Field(min_length=1, max_length=MAX_PARAMETERS, json_schema_extra=list_map("name")),
        distinct("name"),
    ]
    """Parameters that the trials vary, 1 to 32."""
    search: SearchSpec = SearchSpec()
    """How the values of the trials are chosen."""
    parallelism: Trials = 1
    """Largest number of trials that run at the same time."""
    early_stopping: SweepEarlyStopping | None = None
    """Stops bad trials early. Requires a metric during training: `evaluation.mode` of the template must not be
    `AfterTraining`. Defaults to none: every trial trains to its end."""
    target_value: Number | None = None
    """Value of `metric` that ends the sweep as soon as a trial reaches it. Defaults to none."""
    max_failed_trials: Annotated[Natural, Field(le=MAX_TRIALS)] = 3
    """Number of failed trials that the sweep tolerates; with one more it fails. With a metric, an error of the user in
    the first trials fails it at once."""
    keep_best: Trials = 1
    """Number of best trials whose jobs and checkpoints are kept; with more than one they can form an ensemble."""
    clean_trials: CleanTrials = CleanTrials.STOPPED
    """Jobs of trials to delete. `None`: none; `Stopped`: those stopped early; `AllButBest`: all finished ones except
    the `keepBest` best. Results stay in the status."""
    suspend: Boolean = False
    """Suspend the sweep: its jobs are suspended, and no new ones are created. Setting it to false resumes them."""
    active_deadline_seconds: Seconds | None = None
    """Seconds that the sweep may be active, since its start or since it was last resumed, before it fails. Defaults to
    no deadline."""
    ttl_seconds_after_finished: Natural | None = None
    """Seconds after the end of the sweep at which it is deleted with all its jobs. Defaults to never."""
    template: TrialTemplate
    """The TFDistJob of every trial. A trial has the name `SWEEP-NUMBER`, the labels of the sweep, `tfdist.dev/sweep`
    and `tfdist.dev/trial`, and in every replica the variables `TFDIST_TRIAL` and `TFDIST_PARAMETERS`."""

    @property
    def evaluates(self) -> bool:
        """Whether the trials evaluate, so that their metric is of `status.evaluation`."""
        evaluation = self.template.spec.evaluation
        return evaluation is not None and evaluation.mode is not EvaluationMode.NONE

    @property
    def metric_name(self) -> str | None:
        """The metric that compares the trials, with its default; None if it has none."""
        evaluation = self.template.spec.evaluation
        return self.metric or (evaluation.metric if evaluation else None)

    @property
    def maximizes(self) -> bool:
        """Whether a larger metric is better, with the default of `goal`."""
        evaluation = self.template.spec.evaluation
        default = evaluation.goal if evaluation and evaluation.metric == self.metric_name else "Maximize"
        return (self.goal or default) == "Maximize"


class SweepMeta(ObjectMeta):
    """The fields of the metadata that validation and rendering read."""

    name: Annotated[str, StringConstraints(max_length=MAX_SWEEP_NAME, pattern=JOB_NAME)]


class TFDistSweep(ApiModel):
    """A sweep: trials of a TFDistJob with different values of parameters, compared by a metric."""

    api_version: Literal["tfdist.dev/v1alpha1"]
    kind: Literal["TFDistSweep"]
    metadata: SweepMeta
    spec: TFDistSweepSpec
