"""Writes the status of a job; one value that the API server rejects never stops the job's life cycle.

The schema of the CRD, or an admission policy, may reject a value that the controller derives from pods, reports or
nodes. The invalid fields keep their stored values then, or are removed if those are invalid too; an event names them,
and the rest is written. The texts of conditions are replaced. Fields that the next reconcile depends on, such as the
record of attempts, are never omitted: such a write fails, and is retried with back-off.
"""

import logging
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tfdist.planner import Event
from tfdist.reasons import EventReason
from tfdist.render.metadata import Manifest
from tfdist_operator.kube.errors import Invalid, Rejected
from tfdist_operator.kube.job_cache import StoredJob
from tfdist_operator.kube.resources import NOTE_BYTES
from tfdist_operator.kube.runtime_state import JobRuntimeState
from tfdist_operator.reconcile.dependencies import Dependencies
from tfdist_operator.reconcile.events import Publisher

log = logging.getLogger(__name__)

Path = tuple[str, ...]
"""Names of members below `status`; of a condition its type, of another list the list alone."""
Omitted = Mapping[Path, bool]
"""Fields that are not written, and whether their stored values are removed too."""

_RETRY_SECONDS: Final = 600.0
"""When a rejected field is written again: the CRD or a policy may have changed."""
_MAX_ATTEMPTS: Final = 8
_TOO_LARGE: Final = 413
_TOKEN: Final = re.compile(r"[^.\[\]]+")
_ESSENTIAL: Final = frozenset(
    {"activeSince", "attempt", "completionTime", "conditions", "gangs", "observedGeneration", "phase", "restartedAt"}
    | {"restarts", "startTime"}
)
"""Members that the next reconcile depends on."""
_OPTIONAL_OF_GANGS: Final = frozenset({"avoided", "checkpointStep", "notBefore", "toldFailure"})
"""Fields of a gang's record without which it restarts sooner or elsewhere, and never twice at once."""
_TEXT: Final = "the API server has rejected the text of this condition; the event StatusRejected has its reason"


class StatusWriter:
    """Writes statuses."""

    def __init__(self, deps: Dependencies, events: Publisher) -> None:
        self._deps = deps
        self._events = events

    async def write(self, job: StoredJob, status: Manifest, *, counters_only: bool = False) -> None:
        """Write the status of a job, without the fields that the API server rejects.

        With `counters_only` the event of this write causes no reconcile.

        Raises:
            Conflict: the job has been written since it was read.
            JobGone: it has been deleted.
            Rejected: a field is rejected that the life cycle depends on.
            ApiError: the request failed.
        """
        state = self._deps.states.get(job.key, job.uid)
        if state.omitted and (state.omitted_until < self._deps.clock()):
            state.omitted = {}
        for _ in range(_MAX_ATTEMPTS):
            wanted = _without(status, job.status, state.omitted) if state.omitted else status
            if state.omitted and wanted == job.status:
                return
            try:
                stored = await self._deps.resources.patch_status(job, wanted)
            except Rejected as error:
                if not (isinstance(error, Invalid) or error.code == _TOO_LARGE):
                    raise
                await self._omit(job, state, wanted, error)
            else:
                self._deps.jobs.write_through(stored, counters_only=counters_only)
                state.status_written_at = self._deps.clock()
                return
        raise Invalid(0, "Invalid", f"the status is rejected after {_MAX_ATTEMPTS} attempts")

    async def _omit(self, job: StoredJob, state: JobRuntimeState, wanted: Manifest, error: Rejected) -> None:
        """Add the rejected fields to those that are omitted, and report them.

        Raises:
            Rejected: there is no further field that can be omitted.
        """
        named = [path for path in (_path(field, wanted) for field in error.fields) if path]
        more = _more(named, state.omitted) if named else _inessential(wanted, state.omitted)
        if not more:
            state.omitted = {}
            raise error
        state.omitted = {**state.omitted, **more}
        state.omitted_until = self._deps.clock() + _RETRY_SECONDS
        fields = ", ".join(error.fields) or "a field that it does not name"
        log.warning("status was rejected", extra={"job": "/".join(job.key), "error": str(error)})
        text = f"the API server rejects {fields}; the status is stored without it: {error.message}"
        identity = f"{zlib.crc32(repr(sorted(more)).encode()):08x}"
        await self._events.publish(
            job, Event(EventReason.STATUS_REJECTED, text[:NOTE_BYTES], warning=True, identity=identity)
        )


def _path(field: str, status: Manifest) -> Path:
    """Return the path that is omitted for a field in the API server's notation; () for one outside of the status."""
    root, *tokens = _TOKEN.findall(field)
    if root != "status" or not tokens:
        return ()
    if tokens[0] == "conditions":
        conditions: Sequence[Mapping[str, Any]] = status["conditions"]
        known = len(tokens) > 1 and tokens[1].isdigit() and int(tokens[1]) < len(conditions)
        return ("conditions", conditions[int(tokens[1])]["type"]) if known else ("conditions",)
    lists = next((n for n, token in enumerate(tokens) if token.isdigit()), len(tokens))
    return tuple(tokens[:lists])


def _more(named: Iterable[Path], omitted: Omitted) -> dict[Path, bool]:
    """Return the next fields to omit: first with their stored values kept, then removed, then the members around them.

    Empty if one of them must not be omitted.
    """
    more = {}
    for path in named:
        found, removed = path, False
        while omitted.get(found, False):
            found = found[:-1]
        removed = found in omitted
        if not _may_omit(found) or (removed and found[0] == "conditions"):
            return {}
        more[found] = removed
    return more


def _may_omit(path: Path) -> bool:
    match path:
        case ("conditions", _):
            return True
        case ("gangs", _, field, *_):
            return field in _OPTIONAL_OF_GANGS
        case (member, *_):
            return member not in _ESSENTIAL
        case _:
            return False


def _inessential(status: Manifest, omitted: Omitted) -> dict[Path, bool]:
    """Return everything that may be omitted, after a rejection that names no field."""
    members = [(name,) for name in status if name not in _ESSENTIAL]
    texts = [("conditions", found["type"]) for found in status["conditions"]]
    gangs = [
        ("gangs", gang, name)
        for gang, record in status.get("gangs", {}).items()
        for name in record
        if name in _OPTIONAL_OF_GANGS
    ]
    return {path: True for path in (*members, *texts, *gangs) if path not in omitted}


def _without(status: Manifest, stored: Mapping[str, Any], omitted: Omitted) -> Manifest:
    """Return the status to write: omitted fields as they are stored, or absent."""
    result = status
    for path, removed in omitted.items():
        if path[0] == "conditions":
            kept = [_without_text(found) if found["type"] == path[1] else found for found in result["conditions"]]
            result = {**result, "conditions": kept}
        else:
            result = _replaced(result, {} if removed else stored, path)
    return result


def _without_text(condition: Mapping[str, Any]) -> dict[str, Any]:
    return {**condition, "reason": EventReason.STATUS_REJECTED, "message": _TEXT}


def _replaced(content: Mapping[str, Any], stored: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Return a copy of `content` with the field of that path as in `stored`, or without it."""
    name, *rest = path
    result = dict(content)
    if rest:
        if isinstance(inner := content.get(name), Mapping):
            known = stored.get(name)
            result[name] = _replaced(inner, known if isinstance(known, Mapping) else {}, tuple(rest))
    elif name in stored:
        result[name] = stored[name]
    else:
        result.pop(name, None)
    return result
