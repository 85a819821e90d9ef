"""Checks the size of the generated environment variables of large gangs: Linux limits the size of each."""

from collections.abc import Iterator
from typing import Final

from tfdist.api.v1 import TFDistJob
from tfdist.contract import TF_CONFIG_ENV
from tfdist.messages import count
from tfdist.render.gang import cluster_spec, gangs, tensorflow_role
from tfdist.tf_config import tf_config
from tfdist.validation.errors import FieldError

MAX_VARIABLE_BYTES: Final = 131072
"""`MAX_ARG_STRLEN` of Linux (`include/uapi/linux/binfmts.h`) with pages of 4 KiB: the maximum size of a variable with
its name, "=" and the final NUL. For a larger one execve(2) fails with E2BIG, so the container does not start."""
_ALWAYS_FIT: Final = 800
"""Number of addresses of at most 156 bytes, with the longest host name and namespace, that are below the limit."""


def environment_problems(job: TFDistJob) -> Iterator[FieldError]:
    """Yield an error if `TF_CONFIG` would exceed the limit; TensorFlow reads the cluster's addresses only from it.

    The cluster domain of the installation, which makes each address longer, is not known here.
    """
    for gang in gangs(job):
        if len(gang.members) <= _ALWAYS_FIT:
            continue
        cluster = cluster_spec(job, gang)
        last = gang.members[-1]
        config = tf_config(cluster, tensorflow_role(last.role), last.index) if cluster else None
        excess = len(f"{TF_CONFIG_ENV}={config}") + 1 - MAX_VARIABLE_BYTES
        if config is None or excess <= 0:
            continue
        role = max({m.role for m in gang.members}, key=lambda role: sum(m.role is role for m in gang.members))
        addresses = cluster[tensorflow_role(role)]
        fit = len(addresses)
        while excess > 0 and fit > 1:
            fit -= 1
            excess -= len(addresses[fit]) + len('"",')
        yield FieldError(
            f"spec.{role if role in {'ps', 'worker'} else 'worker'}.replicas",
            f"{TF_CONFIG_ENV} has the addresses of all replicas, and Linux limits an environment variable to "
            f"{MAX_VARIABLE_BYTES} bytes: use at most {count(fit, 'replica')}, or shorter names of the job and its "
            "namespace",
        )
        return
