"""What the specification of a job requests of `fit`: to train together, to save, to evaluate, to export."""

from typing import Final

from tfdist.contract import ReplicaJob, Task
from tfdist_trainer import environment

_SYNCHRONOUS: Final = "MultiWorkerMirrored"


def needs_of(job: ReplicaJob, *, may_train_alone: bool) -> str:
    """Return what the specification of a job requests of `fit`, for a message; "" if nothing but training."""
    if job.role not in environment.GANG_ROLES:
        return ""
    requested = {
        "checkpoint": job.checkpoint is not None,
        "evaluation": job.evaluation is not None,
        "training.export": job.export is not None,
        "fit on several workers": trains_together(job) and not may_train_alone,
    }
    return " and ".join(name for name, is_requested in requested.items() if is_requested)


def trains_together(job: ReplicaJob) -> bool:
    """Return whether a replica is one of several workers that train one model, by the specification of its job.

    Not by `TF_CONFIG`, which a script can remove or replace.
    """
    is_member = job.task is Task.TRAIN and job.role in environment.GANG_ROLES
    return is_member and job.strategy == _SYNCHRONOUS and workers(job) > 1


def asks_for_one_training(job: ReplicaJob) -> bool:
    """Return whether a job is to leave one model, by a checkpoint or an export."""
    return job.checkpoint is not None or job.export is not None


def workers(job: ReplicaJob) -> int:
    """Return the number of replicas that train."""
    return sum(job.replicas.get(role, 0) for role in environment.GANG_ROLES)
