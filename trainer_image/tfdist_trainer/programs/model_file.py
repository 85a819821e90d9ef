"""Loads a model from a Keras file, without running code that the file brings.

Only the zip file of `model.save("x.keras")` is loaded: `tf_keras` would take an HDF5 file or a SavedModel folder of
that name, too, and both bring code. Of the zip file Keras runs no lambda (`safe_mode`). Keras 3 also looks up names in
its own classes alone; `tf_keras` imports whatever module the file names and calls what it finds there, so the names
are checked first.
"""

import importlib
import json
import re
import stat
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tfdist_trainer import atomic
from tfdist_trainer.errors import ConfigurationError, one_line
from tfdist_trainer.keras_compat import keras

_CONFIG: Final = "config.json"
_SAVE_AGAIN: Final = 'save the model with model.save("x.keras") of Keras'
_OWN_CLASS: Final = "train the model by a class of your own, training.program: package.module:Class"

_MAX_EXPANSION: Final = 100
"""Ratio of content and file size. Keras stores without compression; a file of zeros shrinks to a thousandth."""

_MALFORMED: Final = (ValueError, TypeError, LookupError, AttributeError, RuntimeError, zipfile.BadZipFile, zlib.error)
"""What Keras and `zipfile` raise for a file that is damaged or of another version."""

_UNKNOWN: Final = re.compile(r"Could not locate (?:class|function) '([^']+)'")
_MAX_REASON: Final = 500

_MODULE: Final = re.compile(r"(?:tf_)?keras(?:\.\w+)*")
_VALUES: Final = frozenset({"__tensor__", "__numpy__", "__bytes__"})
_RUN_CODE: Final = frozenset(
    {
        "Lambda",
        "TensorFlowOpLayer",
        "TFOpLambda",
        "SlicingOpLambda",
        "ClassMethod",
        "InstanceMethod",
        "InstanceProperty",
    }
)
"""Layers of `tf_keras` that call any function of Python or TensorFlow, which may write files, by its name."""
_FUNCTIONS: Final = ("activations", "losses", "metrics")


def load(name: str, field: str) -> keras.Model:
    """Return the model, not compiled, in the Keras file with the path `name`, which `field` of the job gives.

    Raises:
        ConfigurationError: it is not a zip file of Keras, is damaged, or needs classes or code that Keras lacks;
            the message begins with `field`.
        StorageError: the storage failed.
    """
    path = Path(name)
    try:
        # Before Keras opens it: HDF5 files and SavedModels bring code.
        _check_kind(path)
        _check_content(path)
        return keras.models.load_model(name, compile=False, safe_mode=True)
    except atomic.ABSENT as error:
        reason = f"{error.strerror}; check the path and that the volume is mounted"
    except OSError as error:
        if error.errno is not None:
            raise atomic.read_failure(error, path) from None
        reason = one_line(str(error))[:_MAX_REASON]  # h5py, for damaged weights
    except _MALFORMED as error:
        reason = _reason(str(error))
    raise ConfigurationError(f"{field}: cannot load {name}: {reason}")


def _check_kind(path: Path) -> None:
    """Raise `ValueError` if `path` is not a zip file, or has a content of a size that no model has.

    A folder or HDF5 file never reaches Keras. `is_zipfile` takes an error of the storage for another kind of file, so
    the file is opened here.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise ValueError(f"it is not a file, so not the zip file of a Keras model; {_SAVE_AGAIN}")
    with path.open("rb") as file:
        if not zipfile.is_zipfile(file):
            raise ValueError(
                "it is not the zip file of a Keras model; HDF5 files and SavedModels bring code and are not loaded: "
                f"{_SAVE_AGAIN}"
            )
        with zipfile.ZipFile(file) as archive:
            content = sum(entry.file_size for entry in archive.infolist())
    if content > _MAX_EXPANSION * path.stat().st_size:
        raise ValueError(
            f"its content of {content} bytes is more than {_MAX_EXPANSION} times as large as the file, but Keras does "
            f"not compress models; {_SAVE_AGAIN}"
        )


def _check_content(path: Path) -> None:
    """Raise `ValueError` if the configuration names what is not a layer, or another part of a model, of `tf_keras`."""
    with zipfile.ZipFile(path) as archive:
        if _CONFIG not in archive.namelist():
            raise ValueError(f"the zip file has no {_CONFIG}, so it is not a Keras model; {_SAVE_AGAIN}")
        if keras.__name__ != "tf_keras":
            return
        config = json.loads(archive.read(_CONFIG))
    if isinstance(config, dict):
        config.pop("compile_config", None)  # not loaded, and may name losses of the user
    for part in _parts(config):
        _check_part(part)


def _parts(config: Any) -> Iterator[dict[str, Any]]:
    """Yield the objects of the JSON value `config`, at any depth, that have the name of a class."""
    if isinstance(config, dict):
        if "class_name" in config:
            yield config
        config = list(config.values())
    for value in config if isinstance(config, list) else ():
        yield from _parts(value)


def _check_part(part: dict[str, Any]) -> None:
    kind, module = part["class_name"], part.get("module")
    if kind in _VALUES or (kind != "function" and kind not in _RUN_CODE and module is None):
        return  # without a module, Keras takes one of its own classes
    if kind in _RUN_CODE or not (_is_function(part) if kind == "function" else _is_class(module, kind)):
        shown = part.get("config") if kind == "function" else kind
        raise ValueError(
            f"it names {f'{module}.{shown}'[:_MAX_REASON]!r}, which is not a layer, or another part of a model, of "
            f"tf_keras that runs no code of its own; use layers of tf_keras only, or {_OWN_CLASS}"
        )


def _is_function(part: dict[str, Any]) -> bool:
    """Return whether `part` is an activation, loss or metric of Keras."""
    modules = [getattr(keras, name) for name in _FUNCTIONS]
    named = part.get("module") in {"builtins", *(f"keras.{name}" for name in _FUNCTIONS)}
    return named and any(str(part.get("config")) in vars(module) for module in modules)


def _is_class(module: Any, name: Any) -> bool:
    """Return whether `name` in `module` is a class of Keras that is part of a model."""
    if not (isinstance(module, str) and _MODULE.fullmatch(module) and isinstance(name, str)):
        return False
    try:
        found = vars(importlib.import_module(f"tf_{module.removeprefix('tf_')}")).get(name)
    except ImportError:
        return False
    bases = (
        keras.layers.Layer, keras.initializers.Initializer, keras.regularizers.Regularizer,
        keras.constraints.Constraint, keras.mixed_precision.Policy, keras.optimizers.Optimizer,
        keras.optimizers.schedules.LearningRateSchedule, keras.losses.Loss, keras.metrics.Metric,
    )  # fmt: skip
    return isinstance(found, type) and issubclass(found, bases)


def _reason(text: str) -> str:
    """Return why Keras cannot load a model: the last of its exceptions, without the configuration of the model."""
    cause = one_line(text.rpartition("Exception encountered: ")[2].partition(" Full object config: ")[0])
    if unknown := _UNKNOWN.match(cause):
        return f"its class {unknown[1]!r} is not one of Keras, and image_classification imports no other; {_OWN_CLASS}"
    if "safe_mode" in cause:
        return (
            "it has a part that brings code, such as a Lambda layer, which is not run; replace that part by layers of "
            f"Keras, or {_OWN_CLASS}"
        )
    return cause[:_MAX_REASON]
