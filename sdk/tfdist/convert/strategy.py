"""The strategy that fits a TFJob's replica types, and what restarts together under it."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Final

from tfdist.contract import Role
from tfdist.convert.replicas import Replicas
from tfdist.convert.result import Remark
from tfdist.convert.tfjob import MAIN_CONTAINER

DEFAULT: Final = "MultiWorkerMirrored"
PARAMETER_SERVER: Final = "ParameterServer"
CUSTOM: Final = "Custom"

_PATH: Final = "spec.tfReplicaSpecs"

_TOGETHER: Final = {
    DEFAULT: "chief and workers restart together",
    PARAMETER_SERVER: "a worker restarts alone, and chief, ps and workers restart together when chief or ps fails",
    CUSTOM: "all replicas but the evaluator restart together",
}


def strategy(replicas: Mapping[Role, Replicas], remark: Remark) -> str:
    """Return the strategy of a job with these replica types."""
    chosen = _chosen(replicas)
    if chosen == CUSTOM:
        why = (
            "only a chief can coordinate workers and ps" if Role.PS in replicas else "chief and workers differ in GPUs"
        )
        remark(_PATH, f"strategy Custom: {why}, so TFDist makes the cluster spec and leaves the rest to the program")
    if sum(r.count for r in replicas.values() if r.role is not Role.EVALUATOR) > 1:
        remark(_PATH, f"strategy {chosen}: {_TOGETHER[chosen]}; a TFJob restarts the failed replica alone")
    if Role.EVALUATOR in replicas:
        text = (
            "is in no other replica's TF_CONFIG now, because TensorFlow waits for every member it is told of; and when "
            "training has succeeded the job waits for it to end, at most 600 s (spec.evaluation.deadlineSeconds)"
        )
        remark(replicas[Role.EVALUATOR].path, text)
    return chosen


def _chosen(replicas: Mapping[Role, Replicas]) -> str:
    if Role.PS in replicas:
        return PARAMETER_SERVER if {Role.CHIEF, Role.WORKER} <= set(replicas) else CUSTOM
    training = [r for r in replicas.values() if r.role is not Role.EVALUATOR]
    # all-reduce needs equal devices, and TFDist refuses a mirrored gang without them
    return DEFAULT if len({_gpus(r) for r in training}) == 1 else CUSTOM


def _gpus(replicas: Replicas) -> Fraction:
    containers = replicas.template["spec"]["containers"]
    limits = next(c for c in containers if c.get("name") == MAIN_CONTAINER).get("resources", {}).get("limits", {})
    return sum((_whole(v) for k, v in limits.items() if k.rpartition("/")[2] == "gpu"), Fraction(0))


def _whole(amount: object) -> Fraction:
    """Return a number of devices; what is no number is told by the validation of the result."""
    try:
        return Fraction(str(amount))
    except ValueError:
        return Fraction(0)
