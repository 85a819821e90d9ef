"""What kopf calls: it is the process shell, which logs in, takes the signals, and starts and stops the controller.

kopf watches nothing here. Its watches would cost 16 % of a core for the progress of 10,000 pods' jobs and miss what is
deleted across a relist (ADR 10), so jobs and pods come from `kube.informer`.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final

import kopf

STOP_SECONDS: Final = 5.0
"""How long a stop may take before the process is killed; nothing here is lost with it."""


def settings() -> kopf.OperatorSettings:
    """Return kopf's settings for a shell that watches nothing, keeps no state and posts nothing."""
    result = kopf.OperatorSettings()
    result.posting.enabled = False
    result.scanning.disabled = True
    result.peering.standalone = True
    result.networking.error_backoffs = (0.5, 1, 2, 5, 10, 20)
    result.process.ultimate_exiting_timeout = STOP_SECONDS
    return result


def registry(
    login: Callable[[], kopf.ConnectionInfo], start: Callable[[], Awaitable[None]], stop: Callable[[], Awaitable[None]]
) -> kopf.OperatorRegistry:
    """Return kopf's handlers.

    Args:
        login: tells where the API server is and who we are there.
        start: starts the controller; when it fails, the process ends.
        stop: stops the controller, whoever asked for it.
    """
    result = kopf.OperatorRegistry()

    @kopf.on.login(registry=result)
    def logged_in(**_: Any) -> kopf.ConnectionInfo:
        return login()

    @kopf.on.startup(registry=result, errors=kopf.ErrorsMode.PERMANENT)
    async def started(**_: Any) -> None:
        await start()

    @kopf.on.cleanup(registry=result, errors=kopf.ErrorsMode.PERMANENT)
    async def stopped(**_: Any) -> None:
        await stop()

    return result
