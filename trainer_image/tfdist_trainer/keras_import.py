"""Makes `fit` report its progress, and run on several workers, when a script of a job imports Keras or TensorFlow.

No line of the script changes.

The file `tfdist_trainer_keras.pth` makes every Python interpreter with `TFDIST_JOB` call `start`, so this module and
what it imports at first must be light.
"""

import functools
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any, Final

from tfdist_trainer import run_script
from tfdist_trainer.fit_switch import ALONE, FIT_ENV, OFF, fit_switch

_WORKERS: Final = ("chief", "worker")
_SYNCHRONOUS: Final = "MultiWorkerMirrored"


def start() -> None:
    """Run a script so that its end is known, and prepare its `fit`; called while the interpreter starts."""
    # First: it replaces the process, and this module is imported again in the new one (ADR 55).
    if fit_switch(os.environ) != OFF:
        run_script.restart()
    install()


def install() -> None:
    """Make the first import of `keras` in a script prepare `fit`, and of `tensorflow` its first operation."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        import random  # noqa: PLC0415  takes milliseconds of each Python process

        sys.meta_path.insert(0, _Finder(random.getstate()))


def runs_script(environ: Mapping[str, str]) -> bool:
    """Return whether a process with this environment runs a script of a job, for which `fit` of Keras 3 is prepared.

    The bundled trainer, which `training` selects, has a separate loop; `tf_keras` has a `fit` that runs.
    """
    from tfdist.contract import JOB_ENV  # noqa: PLC0415  pydantic
    from tfdist_trainer.runtime import LEGACY_KERAS_ENV  # noqa: PLC0415

    if fit_switch(environ) == OFF or environ.get(LEGACY_KERAS_ENV, "").lower() in {"1", "true"}:
        return False
    # JSON, not the model: pydantic would be imported by every interpreter of a pod.
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


class _Finder(importlib.abc.MetaPathFinder):
    """Finds `keras` and `tensorflow` as without it, and prepares each after the module has run.

    It stays until then: the import of TensorFlow searches for `keras` without importing it.
    """

    def __init__(self, random_state: Any) -> None:
        """Take `random.getstate()` at the start of the process, which shows later whether the script has set a seed."""
        actions: dict[str, Callable[[], None]] = {
            "keras": functools.partial(prepare, random_state),
            "tensorflow": prepare_first_operation,
        }
        self._waiting = {name: action for name, action in actions.items() if name not in sys.modules}
        self._searching = False

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the spec of a module that is prepared, None for every other one."""
        if fullname not in self._waiting or self._searching:
            return None
        self._searching = True  # the other finders are called through this one
        try:
            # By all other finders: this one only adds to the loader.
            spec = importlib.util.find_spec(fullname)
        finally:
            self._searching = False
        loader: Any = spec.loader if spec else None
        if loader is not None and runs_script(os.environ):
            run = loader.exec_module

            def exec_module(module: ModuleType) -> None:
                run(module)
                # After the module has run, and before the script continues behind its import.
                prepare_module = self._waiting.pop(fullname)
                if not self._waiting:
                    sys.meta_path.remove(self)
                prepare_module()

            loader.exec_module = exec_module
        return spec


def prepare_first_operation() -> None:
    """Make the first operation connect a worker to its gang, so that a script may begin with its data."""
    from tfdist_trainer.upstream import eager_context  # noqa: PLC0415  imports packaging

    eager_context.before_start(_connect)


def _connect() -> None:
    """Connect this process to the other workers, if it runs the script of one that is to train with them."""
    from tfdist.contract import JOB_ENV  # noqa: PLC0415  pydantic
    from tfdist_trainer import script_end  # noqa: PLC0415

    # Only one process of a replica may join the gang: no child, and no program that the script starts.
    is_member = runs_script(os.environ) and has_several_workers(os.environ) and script_end.is_replica()
    may_train_alone = fit_switch(os.environ) == ALONE
    if is_member and not may_train_alone and _object(os.environ[JOB_ENV]).get("strategy") == _SYNCHRONOUS:
        from tfdist_trainer.upstream import strategy_worker  # noqa: PLC0415  imports TensorFlow

        strategy_worker.connect()


def prepare(random_state: Any = None) -> None:
    """Make `fit` report, save checkpoints and run on several workers, as far as the environment requests it.

    `random_state` is `random.getstate()` at the start of the process; without it the module `random` gets no seed.
    """
    import keras  # noqa: PLC0415  imported already

    from tfdist_trainer import log  # noqa: PLC0415
    from tfdist_trainer.upstream import versions  # noqa: PLC0415

    if not hasattr(keras, "Model"):
        log.event("keras-fit-off", keras=keras.__file__, reason="a module of the script, not Keras")
        return
    config: Any = getattr(keras, "config", None)
    # Keras 2 has no other backend.
    backend = config.backend() if hasattr(config, "backend") else "tensorflow"
    if backend != "tensorflow":
        log.event("keras-fit-off", backend=backend, reason="the trainer extends fit of the backend tensorflow")
        return
    may_train_alone = fit_switch(os.environ) == ALONE
    # Before any hook is imported: a job that needs them ends, any other one trains with Keras alone.
    if not versions.hooks_serve(os.environ):
        from tfdist_trainer.keras import untested  # noqa: PLC0415

        untested.install(keras, versions.untested(), may_train_alone=may_train_alone)
        return
    try:
        _install(random_state, may_train_alone=may_train_alone)
    except (ImportError, AttributeError) as error:
        # Versions that the job tries may lack a hook; with tested ones it is a defect, and the traceback helps.
        if not versions.untested():
            raise
        from tfdist_trainer import errors, script_end  # noqa: PLC0415

        text = f"image: fit cannot be prepared with {versions.untested()}: {error}; install {versions.REMEDY}"
        script_end.leave_with(errors.ConfigurationError(text))


def _install(random_state: Any, *, may_train_alone: bool) -> None:
    """Replace what `prepare` promises."""
    from tfdist_trainer.keras import enable, reporting, script_training, seeds, trained_alone  # noqa: PLC0415

    # The engine first, at the bottom: what is installed after it wraps its `fit`.
    if has_several_workers(os.environ):
        enable()
        if random_state is not None:
            seeds.set_python_seed(os.environ, random_state)
    script_training.install()  # inside of the reports: a checkpoint is saved after the evaluation is reported
    reporting.install()
    if not may_train_alone:  # outside of all: it may end the process before it claims anything
        trained_alone.install(f"{FIT_ENV}={ALONE}")
