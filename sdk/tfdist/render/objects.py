"""Every object of a job, for people who want to see what the controller makes."""

from typing import Any

from tfdist.api.v1 import TFDistJob
from tfdist.render.gang import gangs
from tfdist.render.installation import Installation
from tfdist.render.network_policy import network_policy
from tfdist.render.pod import Attempt, PodRenderer
from tfdist.render.service import service
from tfdist.render.tensorboard import tensorboard


def objects(job: TFDistJob, default_image: str, attempt: int = 0, cluster_domain: str = "") -> list[dict[str, Any]]:
    """Return the objects that the controller makes for a job, in the order in which it makes them.

    Args:
        job: the job.
        default_image: image of replicas for which the job names none.
        attempt: which start of the gangs, from 0.
        cluster_domain: put behind addresses, such as `cluster.local`.
    """
    installation = Installation(default_image, cluster_domain)
    start = Attempt(attempt, attempt)
    made = [(gang, PodRenderer(job, gang, installation)) for gang in gangs(job)]
    pods = [renderer.pod(member, start) for gang, renderer in made for member in gang.members]
    policies = [network_policy(job, installation.namespace)] if job.spec.network_policy == "Enabled" else []
    board = job.spec.tensor_board
    beside = tensorboard(job, board, installation) if board else ()
    return [service(job, attempt), *policies, *pods, *beside]
