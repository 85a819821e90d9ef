"""Values that are not finite in a loss, a gradient or a variable: training ends with a remedy, or steps are skipped."""

from collections.abc import Sequence
from typing import Final

from tfdist_trainer import log
from tfdist_trainer.errors import DataMalformedError, NotFiniteError

_REMEDY: Final = (
    "lower the learning rate, clip gradients, check the data for values that are not finite, or set "
    "training.config.nonFinitePolicy to SkipStep"
)


def check_steps(not_finite: int, step: int, *, skip: bool) -> None:
    """Log the number of skipped steps until `step`, if any.

    Args:
        not_finite: number of steps with a non-finite loss or gradient; without `skip` all from the first one on.
        step: the last step.
        skip: whether such steps have changed nothing.

    Raises:
        NotFiniteError: some of the steps were not finite, and were not skipped.
    """
    if not not_finite:
        return
    if not skip:
        first = step - not_finite + 1
        raise NotFiniteError(
            f"step {first}: the loss or its gradient is not finite, and this step was not saved; {_REMEDY}"
        )
    log.event("steps-skipped", count=not_finite, until=step, reason="loss or gradient not finite")


def check_weight(sums: Sequence[float], epoch: int, *, skip: bool) -> None:
    """Check the sums of an epoch, which begin with the number of examples, the weighted loss and the weight.

    Raises:
        DataMalformedError: all examples have the weight 0, which trains nothing. Steps that the program does
            `skip` have no weight either, and are no error.
    """
    examples, _, weight = sums[:3]
    if examples and not weight and not skip:
        raise DataMalformedError(
            f"epoch {epoch}: all {examples:.0f} examples have the weight 0, so nothing is trained; check the column "
            "training.config.data.weight, or the weights of dataset()"
        )


def variable_error(step: int) -> NotFiniteError:
    """Return the error of a variable that is not finite at `step`."""
    return NotFiniteError(
        f"step {step}: a variable has become non-finite since the last checkpoint, and was not saved; {_REMEDY}"
    )
