"""TFDist: the TFDistJob API, its checks, the client, and the contract between a replica and the controller."""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tfdist.client.client import Client as Client
    from tfdist.client.function import job as job
    from tfdist.client.job_handle import JobHandle as JobHandle
    from tfdist.client.sweep_handle import SweepHandle as SweepHandle

__version__ = "0.1.0"


if not TYPE_CHECKING:
    _MODULES = {
        "Client": "client",
        "JobHandle": "job_handle",
        "SweepHandle": "sweep_handle",
        "job": "function",
    }

    def __getattr__(name: str) -> Any:
        """Import the client when it is used: images do not have it, and it needs half a second."""
        if name in _MODULES and find_spec("tfdist.client") is None:
            raise AttributeError(f"tfdist.{name} is in another distribution: pip install tfdist-cli")
        if name in _MODULES:
            return getattr(import_module(f"tfdist.client.{_MODULES[name]}"), name)
        raise AttributeError(f"module 'tfdist' has no attribute {name!r}")
