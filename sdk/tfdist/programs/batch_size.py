"""The rule for the global batch size. Imports no model, so that validation needs none for a job without a program."""

from typing import TYPE_CHECKING, Final

from tfdist import messages
from tfdist.programs.base import BrokenRule

if TYPE_CHECKING:
    from tfdist.programs.config import ProgramConfig

DEFAULT_BATCH_SIZE: Final = 128
"""Examples per step on each replica if no size is configured."""


def uneven_batch(config: "ProgramConfig", replicas: int) -> BrokenRule | None:
    """Return the violated rule if `globalBatchSize` cannot be divided evenly by the number of replicas."""
    size = config.global_batch_size
    if size is None or size % replicas == 0:
        return None
    rule = f"must be a multiple of {replicas}, the number of replicas; change either, or set batchSizePerReplica"
    return BrokenRule(("globalBatchSize",), messages.invalid(size, rule))
