"""What callbacks of a script have changed about themselves, for a checkpoint."""

import json
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import keras
import numpy as np

from tfdist_trainer import log
from tfdist_trainer.keras.stored_values import decode_value, encode_value, restore_into

_NOT_STATE: Final = frozenset({"model", "_model", "params", "validation_data"})
_CONSTANTS: Final = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.ModuleType, type, np.ufunc)
"""Classes of values that have no state, such as a `schedule`."""


@dataclass(slots=True)
class CallbackState:
    """What a callback has changed about itself since `fit` began: values that `stored_values` can encode.

    Arguments of its constructor stay as the script has them now: they may have been corrected since.
    """

    callback: Any
    _begin: dict[str, tuple[str, dict[str, Any]]] = field(init=False)
    _constants: dict[str, Any] = field(init=False)
    _unknown: dict[str, Any] = field(init=False, default_factory=dict)
    """Attributes that could not be encoded the last time."""

    def __post_init__(self) -> None:
        self._begin = self._encode()
        attributes = vars(self.callback).items()
        self._constants = {name: value for name, value in attributes if isinstance(value, _CONSTANTS)}

    def changes(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the changed attributes as JSON has them, and their arrays by name."""
        changes = {name: code for name, code in self._encode().items() if not _is_equal(code, self._begin.get(name))}
        arrays = {key: array for _, parts in changes.values() for key, array in parts.items()}
        return {name: json.loads(text) for name, (text, _) in changes.items()}, arrays

    def restore(self, values: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
        """Set the attributes that `changes` returned in another process; containers keep their identity."""
        for name, value in values.items():
            try:
                new = decode_value(value, arrays)
            except (LookupError, TypeError, ValueError) as error:
                attribute = f"{type(self.callback).__name__}.{name}"
                log.event("callback-restarted", attribute=attribute, reason=f"its value cannot be restored: {error}")
                continue
            setattr(self.callback, name, restore_into(new, getattr(self.callback, name, None)))

    def not_stored(self) -> Iterator[tuple[str, str]]:
        """Yield name and class of the attributes that may have changed, and that `changes` has left out.

        Callbacks of Keras are not searched, nor what the constructors of Keras' callbacks have set in a subclass.
        """
        library = [each for each in type(self.callback).__mro__ if each.__module__.partition(".")[0] == "keras"]
        if type(self.callback) in library or type(self.callback).__module__.startswith("tfdist_trainer"):
            return
        extends_more = library[:1] != [keras.callbacks.Callback]
        for name, value in self._unknown.items():
            # A function that was there at the begin comes from the script again.
            is_constant = name in self._constants and self._constants[name] is value
            if not is_constant and value is not self.callback.model and not (extends_more and name.startswith("_")):
                yield name, type(value).__name__

    def _encode(self) -> dict[str, tuple[str, dict[str, Any]]]:
        attributes: dict[str, tuple[str, dict[str, Any]]] = {}
        self._unknown = {}
        for name, value in vars(self.callback).items():
            if name in _NOT_STATE:
                continue
            arrays: dict[str, Any] = {}
            try:
                attributes[name] = (json.dumps(encode_value(value, name, arrays)), arrays)
            except TypeError:
                self._unknown[name] = value
        return attributes


def _is_equal(state: tuple[str, dict[str, Any]], previous: tuple[str, dict[str, Any]] | None) -> bool:
    if previous is None or state[0] != previous[0]:
        return False
    return all(_equal_arrays(array, previous[1][key]) for key, array in state[1].items())


def _equal_arrays(one: Any, other: Any) -> bool:
    return bool(one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes())
