"""What the resource can say and this controller does not act on yet: refused, for nothing may be ignored in silence."""

from collections.abc import Iterator

from tfdist.api.policies import CONTROLLER_NAME, SuccessPolicy
from tfdist.api.training import EvaluationMode
from tfdist.api.v1 import Strategy, TFDistJob, TFDistJobSpec
from tfdist.contract import Role, Task
from tfdist.validation import Problem

_REMEDY = "this version of the controller does not act on it; remove it"


def unsupported(job: TFDistJob) -> tuple[Problem, ...]:
    """Return every field of a valid job that would have no effect."""
    return tuple(Problem(f"spec.{path}", _REMEDY) for path in _paths(job.spec))


def _paths(spec: TFDistJobSpec) -> Iterator[str]:
    if spec.strategy in {Strategy.PARAMETER_SERVER, Strategy.CUSTOM}:
        yield "strategy"
    if spec.task is Task.EVALUATE:
        yield "task"
    if spec.replicas(Role.EVALUATOR):
        beside = spec.evaluation is not None and spec.evaluation.mode is not EvaluationMode.NONE
        yield "evaluation.mode" if beside else "evaluator"
    if spec.success_policy is not SuccessPolicy.CHIEF:
        yield "successPolicy"
    if spec.training and spec.training.source and spec.training.source.git:
        yield "training.source.git"
    yield from _run_policy(spec)
    for name in ("tensor_board", "failure_policy", "oom_policy", "elastic"):
        if getattr(spec, name) is not None:
            yield TFDistJobSpec.model_fields[name].alias or name


def _run_policy(spec: TFDistJobSpec) -> Iterator[str]:
    policy = spec.run_policy
    if policy.suspend:
        yield "runPolicy.suspend"
    for name in ("active_deadline_seconds", "progress_deadline_seconds", "ttl_seconds_after_finished"):
        if getattr(policy, name) is not None:
            yield f"runPolicy.{type(policy).model_fields[name].alias}"
    if policy.managed_by not in {None, CONTROLLER_NAME}:
        yield "runPolicy.managedBy"
    if spec.scheduling.gang not in {"Auto", "None"}:
        yield "scheduling.gang"
