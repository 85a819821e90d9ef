"""Writes the status of a job; a value that the API server rejects does not stop the job's life cycle.

The schema of an older CRD, an admission policy or the size limit may reject a value that the controller derives from
pods, reports or nodes. The essentials, which the next reconcile depends on, are always written.
"""

import logging
import re
import zlib
from collections.abc import Mapping
from typing import Any, Final

from tfdist import __version__
from tfdist.planner import Event
from tfdist.reasons import EventReason
from tfdist.render.metadata import Manifest
from tfdist.status.accounts import without_accounts
from tfdist_operator.cache.job_cache import CachedJob
from tfdist_operator.cache.runtime_state import JobRuntimeState
from tfdist_operator.kube.errors import InvalidError, RejectedError
from tfdist_operator.reconcile.dependencies import Dependencies
from tfdist_operator.reconcile.events import EventPublisher

log = logging.getLogger(__name__)

_RETRY_SECONDS: Final = 600.0
"""Delay before a rejected field is written again: the CRD or a policy may have changed."""
_TOO_LARGE: Final = 413
_FIELD: Final = re.compile(r"status\.(\w+)(?:\.([a-z]\w*))?")
"""A field of the status, in the API server's notation: its first name, and the second, if that is not an index."""
_ESSENTIAL: Final = frozenset(
    {"activeSince", "attempt", "completionTime", "conditions", "gangs", "observedGeneration", "phase", "replicas"}
    | {"restartedAt", "restarts", "startTime"}
)
_TEXT: Final = "the API server has rejected the text of a condition; the event StatusRejected has its reason"


class StatusWriter:
    """Writes statuses."""

    def __init__(self, deps: Dependencies, events: EventPublisher) -> None:
        self._deps = deps
        self._events = events

    async def write(self, job: CachedJob, status: Manifest, *, settled: bool = False) -> None:
        """Write the status of a job, without the fields that the API server rejects.

        With `settled` the event of this write causes no reconcile.

        Raises:
            ConflictError: the job has been written since it was read.
            JobGoneError: it has been deleted.
            RejectedError: an essential field is rejected.
            ApiError: the request failed.
        """
        state, sent = self._deps.states.get(job.key, job.uid), None
        # The CRD or a policy may have changed since: every field is tried again after ten minutes.
        if state.rejected_until < self._deps.clock():
            state.rejected_fields = frozenset()
        cached = job.status.to_json()
        # Three rounds: with what is known to be rejected kept as it is stored; the same again, since the answer has
        # named more fields; and without those fields, since the stored values may be what is rejected now.
        for base in (cached, cached, {}):
            desired = _without_rejected(status, base, state.rejected_fields)
            # Only rejected fields differ: a write would change nothing.
            if state.rejected_fields and without_accounts(desired) == without_accounts(cached):
                return
            # The rejection concerned fields that are always written, so that the same status would be rejected again.
            if desired == sent:
                continue
            try:
                response = await self._deps.resources.patch_status(job, cached, desired)
            except RejectedError as error:
                # A quota or a missing right rejects the request, not a field: to leave out fields does not help.
                if not (isinstance(error, InvalidError) or error.code == _TOO_LARGE):
                    raise
                rejection, sent = error, desired
                await self._reject(job, state, desired, error)
            else:
                self._deps.jobs.write_through(response, settled=settled)
                state.status_written_at = self._deps.clock()
                return
        state.rejected_fields = frozenset()
        raise rejection

    async def _reject(self, job: CachedJob, state: JobRuntimeState, sent: Manifest, error: RejectedError) -> None:
        """Store and report the rejected fields: all fields if the rejection names none."""
        # Some answers, such as 413, name no field: then each one may be the cause, and only the essentials are written.
        named_fields = [(match[1], match[2] or "") for field in error.fields if (match := _FIELD.match(field))]
        rejected = frozenset(named_fields or [(name, "") for name in sent])
        state.rejected_fields |= rejected
        state.rejected_until = self._deps.clock() + _RETRY_SECONDS
        log.warning("status was rejected", extra={"job": "/".join(job.key), "error": str(error)})
        fields = ", ".join(error.fields) or "a field that it does not name"
        text = (
            f"the API server rejects {fields}; the status is stored without it unless the job depends on it. Apply the "
            f"CRD of version {__version__}, or correct the policy that rejects it: {error.message}"
        )
        identity = f"{zlib.crc32(repr(sorted(rejected)).encode()):08x}"
        await self._events.publish(job, Event(EventReason.STATUS_REJECTED, text, warning=True, identity=identity))


def _without_rejected(status: Manifest, stored: Mapping[str, Any], rejected: frozenset[tuple[str, str]]) -> Manifest:
    """Return the status to write: rejected fields as in `stored`, conditions without messages."""
    result = status
    for name, inner in sorted(rejected):
        # The next reconcile depends on the conditions; their messages are the only part with text from outside.
        if name == "conditions":
            result = {**result, name: [{**condition, "message": _TEXT} for condition in result[name]]}
        elif name not in _ESSENTIAL and inner and name in result:
            result = {**result, name: _merge_stored(result[name], stored.get(name, {}), inner)}
        elif name not in _ESSENTIAL:
            result = _merge_stored(result, stored, name)
    return result


def _merge_stored(content: Mapping[str, Any], stored: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a copy of `content` with the field as in `stored`, or without it."""
    return {k: v for k, v in content.items() if k != name} | {k: v for k, v in stored.items() if k == name}
