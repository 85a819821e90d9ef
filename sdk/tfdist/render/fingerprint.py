"""A few characters that differ when pods made of a specification would: to notice a change while pods run."""

import zlib
from typing import Final

from tfdist.api.v1 import TFDistJob

_NO_PART_OF_PODS: Final = {"run_policy", "failure_policy", "success_policy", "network_policy", "tensor_board"}


def fingerprint(job: TFDistJob) -> str:
    """Return the fingerprint of what pods are made of: images, commands, resources, templates, what they are told."""
    return f"{zlib.crc32(job.spec.model_dump_json(exclude=_NO_PART_OF_PODS).encode()):08x}"
