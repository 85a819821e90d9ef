"""The roles of a job's replicas; what is set here goes before what the job sets for all."""

from typing import Annotated

from pydantic import Field, Strict

from tfdist.api.pod_fields import PodFields
from tfdist.api.scalars import Replicas

AtMostOne = Annotated[int, Strict(), Field(ge=0, le=1)]


class ChiefSpec(PodFields):
    """The chief: one replica that leads the gang and writes checkpoints; without it worker 0 does."""

    replicas: AtMostOne = 1
    """0 leaves the chief out."""


class WorkerSpec(PodFields):
    """The workers: the replicas that train."""

    replicas: Replicas = 1
    """Number of workers; `kubectl scale` changes it, as far as that is allowed after the start."""


class ParameterServerSpec(PodFields):
    """The parameter servers, which hold the variables of strategy `ParameterServer`."""

    replicas: Replicas = 1
    """Number of parameter servers, among which the variables are divided."""


class EvaluatorSpec(PodFields):
    """The evaluator: one replica that scores checkpoints while training goes on, and never disturbs it."""

    replicas: AtMostOne = 1
    """0 leaves the evaluator out."""
