"""All objects of a job, as `tfdist render` prints them."""

from typing import Any

from tfdist.api.v1 import TFDistJob
from tfdist.render.gang import gangs
from tfdist.render.installation import Installation
from tfdist.render.network_policy import network_policy
from tfdist.render.pod import Attempt, PodRenderer
from tfdist.render.service import service
from tfdist.render.tensorboard import tensorboard


def objects(job: TFDistJob, default_image: str, attempt: int = 0, cluster_domain: str = "") -> list[dict[str, Any]]:
    """Return the objects that the controller creates for a job, in the order of creation.

    Args:
        job: the job.
        default_image: image of replicas for which the job sets none.
        attempt: number of the attempt, from 0.
        cluster_domain: appended to addresses, such as `cluster.local`.
    """
    installation = Installation(default_image, cluster_domain)
    current = Attempt(attempt, attempt)
    renderers = [(gang, PodRenderer(job, gang, installation)) for gang in gangs(job)]
    pods = [renderer.pod(member, current) for gang, renderer in renderers for member in gang.members]
    policies = [network_policy(job, installation)] if job.spec.network_policy == "Enabled" else []
    board = job.spec.tensor_board
    tensorboard_objects = tensorboard(job, board, installation) if board else ()
    return [service(job, attempt), *policies, *pods, *tensorboard_objects]
