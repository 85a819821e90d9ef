"""Enables the engine when a script imports Keras, in a worker of a job: no line of the script changes.

Importing this module imports neither Keras nor TensorFlow.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import json
import sys
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, Final

from tfdist.contract import TF_CONFIG_ENV
from tfdist_trainer.runtime import LEGACY_KERAS_ENV

OFF_ENV: Final = "TFDIST_KERAS_FIT"
"""Environment variable that leaves `fit` to Keras if it is `off`."""

_WORKERS: Final = ("chief", "worker")


def enable_on_import(environ: Mapping[str, str]) -> None:
    """Enable the engine with the first import of `keras`, if this process is one of several workers of a job."""
    if not _is_one_of_several_workers(environ) or environ.get(OFF_ENV, "").lower() == "off":
        return
    if environ.get(LEGACY_KERAS_ENV, "").lower() in {"1", "true"}:
        return
    if "keras" in sys.modules:
        _enable()
    else:
        sys.meta_path.insert(0, _KerasFinder())


def _is_one_of_several_workers(environ: Mapping[str, str]) -> bool:
    try:
        config = json.loads(environ.get(TF_CONFIG_ENV, "{}"))
        cluster, role = config.get("cluster", {}), config.get("task", {}).get("type")
        workers = sum(len(cluster.get(name, ())) for name in _WORKERS)
    except (ValueError, AttributeError, TypeError):
        return False  # TensorFlow reports it to the script
    return role in _WORKERS and workers > 1 and not cluster.get("ps")


class _KerasFinder(importlib.abc.MetaPathFinder):
    """Finds `keras` as without it, and enables the engine after the module has run."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the spec of `keras`, None for every other module."""
        if fullname != "keras":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        loader: Any = spec.loader if spec else None
        if loader is not None:
            run = loader.exec_module

            def exec_module(module: ModuleType) -> None:
                run(module)
                _enable()

            loader.exec_module = exec_module
        return spec


def _enable() -> None:
    import keras  # noqa: PLC0415  imported already

    if keras.config.backend() == "tensorflow":
        from tfdist_trainer.keras import enable  # noqa: PLC0415

        enable()
