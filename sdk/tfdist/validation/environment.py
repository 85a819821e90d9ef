"""Checks the size of the generated environment variables: Linux limits the size of each."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tfdist import messages
from tfdist.api.v1 import TFDistJob
from tfdist.contract import JOB_ENV, TF_CONFIG_ENV
from tfdist.messages import count
from tfdist.render.gang import cluster_spec, gangs, tensorflow_role
from tfdist.render.installation import Installation
from tfdist.render.pod import PodRenderer
from tfdist.tf_config import tf_config
from tfdist.validation.errors import FieldError

MAX_VARIABLE_BYTES: Final = 131072
"""`MAX_ARG_STRLEN` of Linux (`include/uapi/linux/binfmts.h`) with pages of 4 KiB: the maximum size of a variable with
its name, "=" and the final NUL. For a larger one execve(2) fails with E2BIG, so the container does not start."""
_ALWAYS_FIT: Final = 800
"""Number of addresses of at most 156 bytes, with the longest host name and namespace, that are below the limit."""
_SMALL: Final = 8192
"""Bytes of a specification that always fits, together with the settings of `_ALWAYS_FIT` members."""
_RESERVED: Final = 2048
"""Bytes of a variable that are not known here: uid, cluster domain, attempts, restarts and the token of the gang."""


def environment_problems(job: TFDistJob) -> Iterator[FieldError]:
    """Yield an error if a generated environment variable of a replica would exceed the limit.

    Only `TF_CONFIG` and `TFDIST_JOB` depend on the job's size.
    """
    addresses = list(_too_many_addresses(job))
    yield from addresses or _too_large(job)


def variable_size(name: str, value: str) -> int:
    """Return the bytes of an environment variable as Linux counts them."""
    return len(f"{name}={value}".encode()) + 1


def too_large(name: str, value: str) -> FieldError:
    """Return the error of a variable above the limit; its path is the field that takes most of its bytes."""
    size = variable_size(name, value)
    limit = f"and Linux limits an environment variable to {MAX_VARIABLE_BYTES} bytes"
    if name != JOB_ENV:
        return FieldError("spec.env", f"{name} takes {size} bytes, {limit}: shorten its value, or read it from a file")
    config = (json.loads(value).get("training") or {}).get("config", {})
    if _size(config) < size // 2:
        text = (
            f"{name} contains the members of the job and takes {size} bytes, {limit}: use fewer replicas or shorter "
            "names"
        )
        return FieldError("spec.worker.replicas", text)
    path = _largest(config, ("spec", "training", "config"))
    if path[3:4] == ("data",):
        file_list = "a file that lists them, as in {fileList: /data/files.txt}"
        remedy = f"use patterns of files, such as /data/part-*.tfrecord, or {file_list}"
    else:
        remedy = "shorten this value, or read it from a file on a volume"
    text = f"{name} contains training.config and takes {size} bytes, {limit}: {remedy}"
    return FieldError(messages.join_path(path), text)


def _too_large(job: TFDistJob) -> Iterator[FieldError]:
    small = (
        _size(job.spec.model_dump(mode="json", include={"training", "checkpoint", "evaluation", "runtime"})) < _SMALL
    )
    for gang in gangs(job):
        if small and len(gang.members) <= _ALWAYS_FIT:
            continue
        renderer = PodRenderer(job, gang, Installation(""))
        # The first member has the settings of all launchers.
        value = renderer.variables(gang.members[0], 0)[JOB_ENV]
        if variable_size(JOB_ENV, value) + _RESERVED > MAX_VARIABLE_BYTES:
            yield too_large(JOB_ENV, value)
            return


def _size(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())


def _largest(value: Any, location: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """Return the location of the deepest field that takes more than half of `value`, which is at `location`."""
    items = value.items() if isinstance(value, Mapping) else ()
    half = _size(value) // 2
    for key, item in items:
        if _size(item) > half:
            return _largest(item, (*location, key))
    return location


def _too_many_addresses(job: TFDistJob) -> Iterator[FieldError]:
    """Yield an error if `TF_CONFIG` would exceed the limit; TensorFlow reads the cluster's addresses only from it.

    The cluster domain of the installation, which makes each address longer, is not known here.
    """
    for gang in gangs(job):
        if len(gang.members) <= _ALWAYS_FIT:
            continue
        cluster = cluster_spec(job, gang)
        last_member = gang.members[-1]
        config = tf_config(cluster, tensorflow_role(last_member.role), last_member.index) if cluster else None
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
            f"{TF_CONFIG_ENV} contains the addresses of all replicas, and Linux limits an environment variable to "
            f"{MAX_VARIABLE_BYTES} bytes: use at most {count(fit, 'replica')}, or shorter names of the job and its "
            "namespace",
        )
        return
