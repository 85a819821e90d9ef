"""Values that are not finite in a loss, a gradient or a variable: training ends with a remedy, or steps are skipped."""

from typing import Final

from tfdist_trainer import log
from tfdist_trainer.errors import NotFiniteError

_REMEDY: Final = (
    "lower the learning rate, clip gradients, check the data for values that are not finite, or set "
    "training.config.nonFinitePolicy to SkipStep"
)


def check_steps(not_finite: int, step: int, *, skip: bool) -> None:
    """Log the number of skipped steps before `step`, if any.

    Raises:
        NotFiniteError: some of the steps were `not_finite`, and the program does not `skip` such steps.
    """
    if not not_finite:
        return
    if not skip:
        raise NotFiniteError(
            f"step {step}: the loss or its gradient is not finite, and this step was not saved; {_REMEDY}"
        )
    log.event("steps-skipped", count=not_finite, until=step, reason="loss or gradient not finite")


def variable_error(step: int) -> NotFiniteError:
    """Return the error of a variable that is not finite at `step`."""
    return NotFiniteError(
        f"step {step}: a variable has become non-finite since the last checkpoint, and was not saved; {_REMEDY}"
    )
