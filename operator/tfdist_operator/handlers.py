"""The handlers of kopf: login, startup, cleanup, events of TFDistJobs, and admission of jobs and sweeps.

kopf watches the TFDistJobs, reconnects, and handles signals. An event only updates the job cache and enqueues the key
of the job; `reconcile` is level-triggered and does the rest. So no handler keeps state: kopf adds no finalizer and no
annotation, and publishes no Kubernetes event (ADR 1). The pods, ten times as many as the jobs, are watched by
`cache.informer` (ADR 10).
"""

import asyncio
import logging
import time
from collections.abc import Mapping
from typing import Any, Final, Protocol

import kopf

from tfdist.api.resource import GROUP, PLURAL, VERSION
from tfdist.api.sweep_resource import SWEEP_PLURAL, SWEEP_VERSION
from tfdist_operator.kube.backoff import RECONNECT
from tfdist_operator.webhook.admission import SWEEP_WEBHOOK, WEBHOOK, Review

log = logging.getLogger(__name__)

STOP_SECONDS: Final = 5.0
"""Time limit of a stop; then the process is killed, which loses no state."""
INACTIVITY_SECONDS: Final = 70.0
"""A watch without event or bookmark for this time is replaced; bookmarks are sent every minute."""
_OPERATIONS: Final = ("CREATE", "UPDATE")
"""Operations that the webhooks admit."""
_LOGIN_SECONDS: Final = 2.0
"""Minimum time between two logins: an API server that responds with 401 for a while causes no tight loop."""


class Operator(Protocol):
    """The controller's interface for the handlers."""

    def session(self) -> kopf.AiohttpSession:
        """Return a new session with the API server, for kopf."""

    async def start(self) -> None:
        """Start the controller; the process ends if this fails."""

    async def stop(self) -> None:
        """Stop the controller and release the Lease."""

    def on_job_event(self, kind: str | None, raw: Any) -> None:
        """Handle an event of a job: `ADDED`, `MODIFIED`, `DELETED`, or None for an object of a list."""

    async def review(self, manifest: Mapping[str, Any], old: Mapping[str, Any] | None) -> Review:
        """Return the errors and warnings of a job or sweep that is created, or changed from `old`."""


def registry(operator: Operator, *, webhook: bool = False) -> kopf.OperatorRegistry:
    """Return kopf's handlers, each of which calls `operator`; only with `webhook` do they include admission."""
    result = kopf.OperatorRegistry()
    last_login = -_LOGIN_SECONDS

    @kopf.on.login(registry=result)
    async def login(**_: Any) -> kopf.AiohttpSession:
        nonlocal last_login
        # kopf logs in again at each 401: a server that answers so for a while must cause no tight loop.
        await asyncio.sleep(max(0.0, last_login + _LOGIN_SECONDS - time.monotonic()))
        last_login = time.monotonic()
        return operator.session()

    @kopf.on.startup(registry=result, errors=kopf.ErrorsMode.PERMANENT)
    async def start(**_: Any) -> None:
        await operator.start()

    @kopf.on.cleanup(registry=result, errors=kopf.ErrorsMode.PERMANENT)
    async def stop(**_: Any) -> None:
        await operator.stop()

    @kopf.on.event(GROUP, VERSION, PLURAL, registry=result)
    async def on_job_event(event: Any, **_: Any) -> None:
        try:
            # An event only updates the cache and queues the key of the job: handlers keep no state (ADR 1).
            operator.on_job_event(event["type"], event["object"])
        except Exception:
            log.exception(
                "an event of a job is ignored", extra={"job": event["object"].get("metadata", {}).get("name")}
            )

    if webhook:  # kopf does not start with an admission handler and no admission server

        @kopf.on.validate(GROUP, VERSION, PLURAL, id=WEBHOOK, operations=_OPERATIONS, registry=result)
        @kopf.on.validate(GROUP, SWEEP_VERSION, SWEEP_PLURAL, id=SWEEP_WEBHOOK, operations=_OPERATIONS, registry=result)
        async def validate(body: kopf.Body, warnings: list[str], old: kopf.Body | None = None, **_: Any) -> None:
            answer = await operator.review(dict(body), dict(old) if old is not None else None)
            warnings.extend(answer.warnings)
            if answer.problems:
                raise kopf.AdmissionError("; ".join(answer.problems), code=422)

    return result


def settings() -> kopf.OperatorSettings:
    """Return kopf's settings: it watches, stores nothing in the jobs, and publishes no events."""
    result = kopf.OperatorSettings()
    # The planner decides which events a job has, not kopf (ADR 1).
    result.posting.enabled = False
    result.scanning.disabled = True  # no watch of all CRDs and namespaces; `kube.preflight` checks the CRD
    result.peering.standalone = True
    result.watching.inactivity_timeout = INACTIVITY_SECONDS
    result.watching.server_timeout = 300
    result.watching.chunk_size = 25  # for servers that do not stream lists: a page of the largest jobs has 6 MB
    result.queueing.idle_timeout = 1.0
    result.queueing.exit_timeout = 0.5
    result.networking.request_timeout = 30.0
    # kopf ends the operator when the delays of a request end: these have no end (ADR 10).
    result.networking.error_backoffs = RECONNECT
    # The default storage copies every object at every event (ADR 1).
    result.persistence.diffbase_storage = _NoDiffBase()
    result.persistence.progress_storage = _NoProgress()
    # kopf removes its finalizer if no handler needs it. No object can have this one, so no job is ever patched.
    result.persistence.finalizer = "no finalizer is used"
    result.process.ultimate_exiting_timeout = STOP_SECONDS
    return result


class _NoDiffBase(kopf.DiffBaseStorage):
    """Stores no last handled state; the default storage copies every object at every event."""

    def build(self, **_: Any) -> kopf.BodyEssence:
        """Return an empty essence."""
        return kopf.BodyEssence()

    def fetch(self, **_: Any) -> None:
        """Return that nothing is stored."""

    def store(self, **_: Any) -> None:
        """Store nothing."""


class _NoProgress(kopf.ProgressStorage):
    """Stores no progress of handlers: event handlers have none."""

    def fetch(self, **_: Any) -> None:
        """Return that nothing is stored."""

    def store(self, **_: Any) -> None:
        """Store nothing."""

    def purge(self, **_: Any) -> None:
        """Remove nothing."""

    def touch(self, **_: Any) -> None:
        """Change nothing."""

    def clear(self, *, essence: kopf.BodyEssence) -> kopf.BodyEssence:
        """Return the essence unchanged."""
        return essence
