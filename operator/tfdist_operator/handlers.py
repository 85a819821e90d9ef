"""What kopf calls: the job kind's events, which only mark a key dirty, and the settings of its machinery.

kopf is the process shell. It watches TFDistJobs, reconnects, and authenticates; it stores nothing in them. Its
state-keeping handlers cost 31 to 41 API requests a job against about 7 for a level-triggered queue (ADR 1).
"""

from collections.abc import Callable
from typing import Any

import kopf

from tfdist.api.v1 import GROUP, PLURAL, VERSION
from tfdist_operator.kube.job_store import JobStore
from tfdist_operator.kube.pod_store import Key


class NoDiffBase(kopf.DiffBaseStorage):
    """Remembers nothing: without state-keeping handlers there is no last handled configuration."""

    def fetch(self, **_: Any) -> None:
        """Return that nothing is remembered."""

    def store(self, **_: Any) -> None:
        """Store nothing."""


class NoProgress(kopf.ProgressStorage):
    """Remembers nothing: without state-keeping handlers there is no progress of theirs."""

    def fetch(self, **_: Any) -> None:
        """Return that nothing is remembered."""

    def store(self, **_: Any) -> None:
        """Store nothing."""

    def purge(self, **_: Any) -> None:
        """Remove nothing."""

    def touch(self, **_: Any) -> None:
        """Change nothing."""

    def clear(self, *, essence: Any) -> Any:
        """Return the essence as it is."""
        return essence


def settings() -> kopf.OperatorSettings:
    """Return kopf's settings for a shell that keeps no state and posts nothing."""
    result = kopf.OperatorSettings()
    result.persistence.diffbase_storage = NoDiffBase()
    result.persistence.progress_storage = NoProgress()
    result.persistence.finalizer = f"{GROUP}/unused"
    result.posting.enabled = False
    result.scanning.disabled = True
    result.peering.standalone = True
    result.networking.error_backoffs = (0.5, 1, 2, 5, 10, 20)
    return result


def registry(jobs: JobStore, on_change: Callable[[Key], None], login: kopf.ConnectionInfo) -> kopf.OperatorRegistry:
    """Return kopf's handlers: they keep `jobs` up to date and call `on_change` with the key of a changed job."""
    result = kopf.OperatorRegistry()

    @kopf.on.login(registry=result)
    def connection(**_: Any) -> kopf.ConnectionInfo | None:
        settings = kopf.OperatorSettings()
        return kopf.login_with_service_account(settings=settings) or login

    @kopf.on.event(GROUP, VERSION, PLURAL, registry=result)
    async def job_changed(event: kopf.RawEvent, **_: Any) -> None:
        raw = event["object"]
        meta = raw["metadata"]
        key = Key(meta["namespace"], meta["name"])
        if event["type"] == "DELETED":
            jobs.remove(key, meta["uid"])
            on_change(key)
        else:
            on_change(jobs.put(raw))

    return result
