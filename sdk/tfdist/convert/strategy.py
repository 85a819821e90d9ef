"""Chooses the strategy for a TFJob's replica types; it determines which replicas restart together."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Final

from tfdist.contract import Role
from tfdist.convert.replicas import Replicas
from tfdist.convert.result import AddNote
from tfdist.convert.tfjob import MAIN_CONTAINER
from tfdist.podspec import gpu_count

DEFAULT: Final = "MultiWorkerMirrored"
PARAMETER_SERVER: Final = "ParameterServer"
CUSTOM: Final = "Custom"

_PATH: Final = "spec.tfReplicaSpecs"

_TOGETHER: Final = {
    DEFAULT: "chief and workers restart together",
    PARAMETER_SERVER: "a worker restarts alone, and chief, ps and workers restart together when chief or ps fails",
    CUSTOM: "all replicas but the evaluator restart together",
}


def strategy(replicas: Mapping[Role, Replicas], add_note: AddNote) -> str:
    """Return the strategy of a job with these replica types."""
    name = _strategy_name(replicas)
    if name == CUSTOM:
        reason = (
            "only a chief can coordinate workers and ps" if Role.PS in replicas else "chief and workers differ in GPUs"
        )
        text = f"strategy Custom: {reason}, so TFDist provides the cluster spec and the program does the rest"
        add_note(_PATH, text)
    if sum(r.count for r in replicas.values() if r.role is not Role.EVALUATOR) > 1:
        add_note(_PATH, f"strategy {name}: {_TOGETHER[name]}; a TFJob restarts the failed replica alone")
    if Role.EVALUATOR in replicas:
        text = (
            "is no longer in the TF_CONFIG of other replicas, because TensorFlow waits for every member of it; after "
            "training has succeeded the job waits until it ends, at most 600 s (spec.evaluation.deadlineSeconds)"
        )
        add_note(replicas[Role.EVALUATOR].path, text)
    return name


def _strategy_name(replicas: Mapping[Role, Replicas]) -> str:
    if Role.PS in replicas:
        return PARAMETER_SERVER if {Role.CHIEF, Role.WORKER} <= set(replicas) else CUSTOM
    training = [r for r in replicas.values() if r.role is not Role.EVALUATOR]
    # all-reduce needs equal devices, and TFDist rejects a mirrored gang without them
    return DEFAULT if len({_gpus(r) for r in training}) == 1 else CUSTOM


def _gpus(replicas: Replicas) -> Fraction:
    """Return the number of GPUs of a replica; 0 for an invalid quantity, which the validation of the result reports."""
    containers = replicas.template["spec"]["containers"]
    try:
        return gpu_count(next(c for c in containers if c.get("name") == MAIN_CONTAINER))
    except ValueError:
        return Fraction(0)
