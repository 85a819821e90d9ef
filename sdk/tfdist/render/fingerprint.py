"""Hash of the part of a specification that pods are made of: it detects that running pods are outdated."""

import zlib
from typing import Final

from tfdist.api.v1 import TFDistJob

_POLICY_FIELDS: Final = {
    "run_policy",
    "failure_policy",
    "success_policy",
    "network_policy",
    "network_policy_ingress",
    "tensor_board",
}
"""Fields that pods do not depend on: a change takes effect at once, without a new attempt."""
_SCHEDULING_POLICY_FIELDS: Final = {"min_available", "timeout_seconds", "queue"}
"""Such fields of `scheduling`."""


def fingerprint(job: TFDistJob) -> str:
    """Return the hash of the fields that pods depend on: images, commands, resources, templates, `TFDIST_JOB`."""
    # Policies take effect at once and must not make running pods outdated (ADR 22).
    excluded = dict.fromkeys(_POLICY_FIELDS, True) | {"scheduling": _SCHEDULING_POLICY_FIELDS}
    return f"{zlib.crc32(job.spec.model_dump_json(exclude=excluded).encode()):08x}"


def with_policies_of(job: TFDistJob, newest: TFDistJob) -> TFDistJob:
    """Return `job`, an earlier specification that pods are made of, with metadata and policy fields of `newest`."""
    policies = {name: getattr(newest.spec, name) for name in _POLICY_FIELDS}
    scheduling = {name: getattr(newest.spec.scheduling, name) for name in _SCHEDULING_POLICY_FIELDS}
    policies["scheduling"] = job.spec.scheduling.model_copy(update=scheduling)
    return newest.model_copy(update={"spec": job.spec.model_copy(update=policies)})
