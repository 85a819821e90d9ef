"""What the resource can say and this controller does not act on yet: refused, for nothing may be ignored in silence."""

from collections.abc import Iterator

from tfdist.api.v1 import TFDistJob, TFDistJobSpec
from tfdist.validation import Problem

_REMEDY = "this version of the controller does not act on it; remove it"
_FIELDS = ("oom_policy", "elastic")


def unsupported(job: TFDistJob) -> tuple[Problem, ...]:
    """Return every field of a valid job that would have no effect."""
    return tuple(Problem(f"spec.{path}", _REMEDY) for path in _paths(job.spec))


def _paths(spec: TFDistJobSpec) -> Iterator[str]:
    for name in _FIELDS:
        if getattr(spec, name) is not None:
            yield TFDistJobSpec.model_fields[name].alias or name
    if spec.scheduling.gang not in {"Auto", "None"}:
        yield "scheduling.gang"
    elif spec.scheduling.queue is not None:
        yield "scheduling.queue"
