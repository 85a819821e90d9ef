"""TFDist: the TFDistJob API, its checks, the client, and the contract between a replica and the controller."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tfdist.client.client import Client as Client
    from tfdist.client.handle import JobHandle as JobHandle

__version__ = "0.1.0"


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Import the client when it is used: it needs the extra `client`, and half a second."""
        if name in {"Client", "JobHandle"}:
            from tfdist.client import client  # noqa: PLC0415

            return getattr(client, name)
        raise AttributeError(f"module 'tfdist' has no attribute {name!r}")
