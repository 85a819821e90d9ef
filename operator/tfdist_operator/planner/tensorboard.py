"""The job's TensorBoard: made once for every specification, and removed when its own time after the end is over.

It is beside the job in every respect: a TensorBoard that is refused or that fails costs training nothing.
"""

from typing import Any

from tfdist.render import names
from tfdist.render.installation import Installation
from tfdist.render.tensorboard import tensorboard
from tfdist_operator.observed.view import JobView
from tfdist_operator.planner.look import Look
from tfdist_operator.planner.plan import Manifest


def beside_job(look: Look, installation: Installation) -> tuple[Manifest, ...]:
    """Return the objects to be applied: those of a specification for which this process has not done so."""
    wanted = look.spec.tensor_board
    if wanted is None or look.view.tensorboard_of == look.view.generation:
        return ()
    return tensorboard(look.job, wanted, installation)


def status_of(look: Look) -> dict[str, Any] | None:
    """Return `status.tensorBoard`; None without one."""
    return {"service": names.tensorboard(look.job.metadata.name)} if look.spec.tensor_board else None


def is_given_up(look: Look) -> bool:
    """Return whether there is one that the specification asks for no longer."""
    return look.spec.tensor_board is None and look.view.status.get("tensorBoard") is not None


def outlives(view: JobView, age_seconds: float) -> float | None:
    """Return for how many seconds more it outlives the job, whose end is `age_seconds` ago; None without one to remove.

    It is removed once by each process: whether an earlier one did so nobody can tell from the status.
    """
    wanted = view.job.spec.tensor_board if view.job else None
    if wanted is None or view.tensorboard_removed:
        return None
    return max(0.0, wanted.ttl_seconds_after_finished - age_seconds)
