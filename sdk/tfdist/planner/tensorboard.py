"""The TensorBoard of a job: it exists while the specification requires it, and until its TTL after the end.

It is independent of the job: training continues where the TensorBoard is rejected or fails.
"""

from typing import Any

from tfdist.observed.job_view import JobView
from tfdist.planner.context import PlanContext
from tfdist.planner.plan import Manifest
from tfdist.render import names
from tfdist.render.installation import Installation
from tfdist.render.tensorboard import tensorboard


def desired_objects(context: PlanContext, installation: Installation) -> tuple[Manifest, ...]:
    """Return the objects that the specification requires; none while it is invalid, so that nothing changes."""
    asked = None if context.view.problems else context.spec.tensor_board
    return () if asked is None else tensorboard(context.job, asked, installation)


def status_of(context: PlanContext) -> dict[str, Any] | None:
    """Return `status.tensorBoard`; None without a TensorBoard. An invalid specification leaves it unchanged."""
    if context.view.problems:
        return context.view.status.get("tensorBoard")
    return {"service": names.tensorboard(context.job.metadata.name)} if context.spec.tensor_board else None


def remaining_seconds(view: JobView, age_seconds: float) -> float | None:
    """Return its remaining seconds, for a job that finished `age_seconds` ago; None for an invalid job."""
    if view.job is None:
        return None
    asked = view.job.spec.tensor_board
    return 0.0 if asked is None else max(0.0, asked.ttl_seconds_after_finished - age_seconds)
