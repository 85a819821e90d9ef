"""The fields of a condition in the status of any resource."""

from typing import Annotated, Literal

from pydantic import Field

from tfdist.api.base import ApiModel
from tfdist.api.scalars import Time


class StatusCondition(ApiModel):
    """A condition, as in Kubernetes' API conventions; each resource has its own types."""

    type: str
    """Type of the condition."""
    status: Literal["True", "False", "Unknown"]
    """Status of the condition: `True`, `False` or `Unknown`."""
    reason: Annotated[str, Field(max_length=256)]
    """Reason of the last transition, a CamelCase word."""
    message: Annotated[str, Field(max_length=4096)]
    """Human-readable details of the last transition, with the remedy if there is one."""
    observed_generation: int
    """`metadata.generation` that the condition was derived from."""
    last_transition_time: Time
    """Time at which `status` last changed."""
