"""The roles of a job; fields set for a role override the job's."""

from typing import Annotated

from pydantic import Field, Strict

from tfdist.api.pod_fields import PodFields
from tfdist.api.scalars import Replicas

AtMostOne = Annotated[int, Strict(), Field(ge=0, le=1)]


class ChiefSpec(PodFields):
    """The chief: one replica that leads the gang and writes checkpoints."""

    replicas: AtMostOne = 1
    """Number of chiefs, 0 or 1. With 0 the job has no chief, and worker 0 leads."""


class WorkerSpec(PodFields):
    """The workers: the replicas that train."""

    replicas: Replicas = 1
    """Number of workers. `kubectl scale` sets it; a started job must be suspended for a change."""


class ParameterServerSpec(PodFields):
    """The parameter servers, which hold the variables with strategy `ParameterServer`."""

    replicas: Replicas = 1
    """Number of parameter servers; the variables are distributed over them."""


class EvaluatorSpec(PodFields):
    """The evaluator: one replica that scores checkpoints during training. Its failure does not affect training."""

    replicas: AtMostOne = 1
    """Number of evaluators, 0 or 1."""
