"""Objects that a job owns in addition to its pods: the plan names each of them, whether or not it exists."""

from collections.abc import Iterator

from tfdist.planner.context import PlanContext
from tfdist.planner.plan import Manifest, ObjectName
from tfdist.render import names
from tfdist.render.installation import Installation
from tfdist.render.network_policy import network_policy
from tfdist.render.service import service


def desired_objects(context: PlanContext, generation: int, installation: Installation) -> tuple[Manifest, ...]:
    """Return the objects of an address generation: the Service for DNS names, and the NetworkPolicy for isolation."""
    made = service(context.job, generation)
    if context.spec.network_policy != "Enabled":
        return (made,)
    return (made, network_policy(context.job, installation))


def obsolete_objects(context: PlanContext) -> tuple[ObjectName, ...]:
    """Return the objects that the specification no longer requires; an invalid one deletes none."""
    return () if context.view.problems else tuple(_unwanted(context))


def _unwanted(context: PlanContext) -> Iterator[ObjectName]:
    name = context.job.metadata.name
    open_to_all = context.spec.network_policy != "Enabled"
    if open_to_all:
        yield ObjectName("NetworkPolicy", name)
    if context.spec.tensor_board is None:
        yield from of_tensorboard(name)
    elif open_to_all:
        yield ObjectName("NetworkPolicy", names.tensorboard(name))


def of_replicas(job: str) -> tuple[ObjectName, ...]:
    """Return the names of the Service and the NetworkPolicy of a job's replicas."""
    return ObjectName("Service", job), ObjectName("NetworkPolicy", job)


def of_tensorboard(job: str) -> tuple[ObjectName, ...]:
    """Return the names of the objects of a job's TensorBoard."""
    return tuple(ObjectName(kind, names.tensorboard(job)) for kind in ("Deployment", "Service", "NetworkPolicy"))
