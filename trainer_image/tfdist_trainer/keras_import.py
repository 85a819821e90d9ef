"""Makes `fit` report its progress, and run on several workers, when a script of a job imports Keras.

No line of the script changes.

The file `tfdist_trainer_keras.pth` makes every Python interpreter with `TFDIST_JOB` call `start`, so this module and
what it imports at first must be light.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import sys
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, Final

from tfdist_trainer import run_script

FIT_ENV: Final = "TFDIST_KERAS_FIT"
"""Environment variable that leaves `fit` to Keras if it is `off`, and lets each worker train alone if it is `alone`."""
ALONE: Final = "alone"

_WORKERS: Final = ("chief", "worker")


def start() -> None:
    """Run a script so that its end is known, and prepare its `fit`; called while the interpreter starts."""
    if os.environ.get(FIT_ENV, "").lower() != "off":
        run_script.restart()
    install()


def install() -> None:
    """Make the first import of `keras` in a script prepare `fit`."""
    if not any(isinstance(finder, _KerasFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _KerasFinder())


def runs_script(environ: Mapping[str, str]) -> bool:
    """Return whether a process with this environment runs a script of a job, for which `fit` of Keras 3 is prepared.

    The bundled trainer, which `training` selects, has a separate loop; `tf_keras` has a `fit` that runs.
    """
    from tfdist.contract import JOB_ENV  # noqa: PLC0415  pydantic
    from tfdist_trainer.runtime import LEGACY_KERAS_ENV  # noqa: PLC0415

    if environ.get(FIT_ENV, "").lower() == "off" or environ.get(LEGACY_KERAS_ENV, "").lower() in {"1", "true"}:
        return False
    return not _object(environ.get(JOB_ENV, "")).get("training")


def has_several_workers(environ: Mapping[str, str]) -> bool:
    """Return whether this process is one of several workers without parameter servers, for which the engine is."""
    from tfdist.contract import TF_CONFIG_ENV  # noqa: PLC0415  pydantic

    config = _object(environ.get(TF_CONFIG_ENV, ""))
    cluster, task = config.get("cluster"), config.get("task")
    if not isinstance(cluster, dict) or not isinstance(task, dict):
        return False
    workers = sum(len(cluster.get(name, ())) for name in _WORKERS)
    return task.get("type") in _WORKERS and workers > 1 and not cluster.get("ps")


def _object(text: str) -> dict[str, Any]:
    """Return the object that `text` has in JSON; empty if it has none, which TensorFlow reports to the script."""
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


class _KerasFinder(importlib.abc.MetaPathFinder):
    """Finds `keras` as without it, and prepares `fit` after the module has run.

    It stays until then: the import of TensorFlow searches for `keras` without importing it.
    """

    _searching = False

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the spec of `keras`, None for every other module."""
        if fullname != "keras" or self._searching:
            return None
        self._searching = True  # the other finders are called through this one
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._searching = False
        loader: Any = spec.loader if spec else None
        if loader is not None and runs_script(os.environ):
            run = loader.exec_module

            def exec_module(module: ModuleType) -> None:
                run(module)
                sys.meta_path.remove(self)
                prepare()

            loader.exec_module = exec_module
        return spec


def prepare() -> None:
    """Make `fit` report, save checkpoints and run on several workers, as far as the environment requests it."""
    import keras  # noqa: PLC0415  imported already

    if not hasattr(getattr(keras, "config", None), "backend"):  # Keras 2, or a module of the script with this name
        from tfdist_trainer import log  # noqa: PLC0415

        log.event("keras-fit-off", keras=keras.__file__, reason="not Keras 3")
        return
    if keras.config.backend() != "tensorflow":
        return
    from tfdist_trainer.keras import enable, reporting, script_training, trained_alone, untested  # noqa: PLC0415
    from tfdist_trainer.upstream import keras_fit  # noqa: PLC0415

    may_train_alone = os.environ.get(FIT_ENV, "").lower() == ALONE
    if not keras_fit.is_tested():
        untested.install(may_train_alone=may_train_alone)
        return
    if has_several_workers(os.environ):
        enable()
    script_training.install()  # inside of the reports: a checkpoint is saved after the evaluation is reported
    reporting.install()
    if not may_train_alone:  # outside of all: it may end the process before it claims anything
        trained_alone.install(f"{FIT_ENV}={ALONE}")
