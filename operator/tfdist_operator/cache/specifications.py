"""Earlier specifications of a job, and the valid part of an invalid specification."""

import hashlib
import logging
from collections.abc import Mapping
from typing import Any, Final

import orjson

from tfdist.api.v1 import TFDistJob
from tfdist.render.names import RESTART_ANNOTATION
from tfdist.validation import FieldError, parse
from tfdist.validation.partial import partial_job

log = logging.getLogger(__name__)

_LONGEST_REQUEST: Final = 64

Raw = Mapping[str, Any]
Older = Mapping[int, TFDistJob]


def older_specifications(raw: Raw, previous: Older, pod_defaults: Raw) -> Older:
    """Return the earlier specifications that pods of a job are created from, by generation.

    Args:
        raw: the job as JSON of the API server.
        previous: the specifications that this process has observed, by generation.
        pod_defaults: the installation's defaults of the pods of all jobs.
    """
    status = _mapping(raw, "status")
    records = _mapping(status, "gangs").values()
    generations = {record.get("generation", 0) for record in records if isinstance(record, Mapping)}
    texts = _mapping(status, "specifications")
    result = {}
    for generation in generations - {0, raw["metadata"]["generation"]}:
        job = previous.get(generation) or _restore(raw, texts.get(str(generation)), pod_defaults)
        if job is not None:
            result[generation] = job
    return result


def _mapping(content: Raw, name: str) -> Raw:
    """Return a mapping in a status, which another client may have written; {} if it is none."""
    value = content.get(name)
    return value if isinstance(value, Mapping) else {}


def _restore(raw: Raw, text: Any, pod_defaults: Raw) -> TFDistJob | None:
    """Return the job with a specification that its status keeps; None if it is missing or invalid."""
    if not isinstance(text, str):
        return None
    try:
        return parse({**raw, "spec": orjson.loads(text)}, pod_defaults)
    except ValueError:
        return None  # for example of a version with other rules: the gang restarts as a whole


def partial(raw: Raw, problems: tuple[FieldError, ...]) -> TFDistJob:
    """Return the valid part of an invalid specification, with the replica counts of the start of the job."""
    replicas = _mapping(_mapping(raw, "status"), "replicas")
    sizes = {role: counts["desired"] for role, counts in replicas.items() if isinstance(counts, Mapping)}
    try:
        return partial_job(raw, problems, sizes)
    except Exception:
        log.exception("nothing of an invalid specification can be read", extra={"job": raw["metadata"]["name"]})
        return partial_job({"metadata": raw["metadata"]}, (), sizes)


def restart_request(raw: Raw) -> str:
    """Return the value of the annotation that requests a restart, or a hash of a long one; "" without one."""
    value = (raw["metadata"].get("annotations") or {}).get(RESTART_ANNOTATION, "")
    return value if len(value) <= _LONGEST_REQUEST else hashlib.sha256(value.encode()).hexdigest()
