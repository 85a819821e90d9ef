"""Values of a script in a checkpoint, as JSON and arrays: each comes back as what it was, and no code is stored.

JSON has numbers, texts, true, false and null as they are, and any other value as an object of one key, its kind.
The script's named tuples, dataclasses and enumerations are stored by the name of their class.
"""

import base64
import collections
import dataclasses
import datetime as dt
import enum
import functools
import json
import random
import sys
from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import numpy as np
import tensorflow as tf

_PLAIN: Final = frozenset({type(None), bool, int, float, str})
_FACTORIES: Final = {each.__name__: each for each in (bool, dict, float, int, list, set, str, tuple)}
"""Factories of a `defaultdict`; any other one comes from the object that a value is restored into."""
_CONTAINERS: Final = (dict, list, set, collections.deque)
_TEXTS: Final[Mapping[str, tuple[type, Callable[[Any], str], Callable[[str], Any]]]] = {
    "bytes": (bytes, lambda value: base64.b64encode(value).decode(), base64.b64decode),
    "bytearray": (
        bytearray,
        lambda value: base64.b64encode(value).decode(),
        lambda text: bytearray(base64.b64decode(text)),
    ),
    "complex": (complex, repr, complex),
    "Decimal": (Decimal, str, Decimal),
    "Fraction": (Fraction, str, Fraction),
    "Path": (type(Path()), str, Path),
    "date": (dt.date, str, dt.date.fromisoformat),
    "datetime": (dt.datetime, str, dt.datetime.fromisoformat),
    "time": (dt.time, str, dt.time.fromisoformat),
}
"""Kinds that are a text, each with its class, its encoder and its decoder."""


def encode_value(value: Any, name: str, arrays: dict[str, Any]) -> Any:
    """Return `value` for JSON, with its arrays in `arrays` by names that begin with `name`.

    Raises:
        TypeError: it is or has an object of another kind.
    """
    try:
        return _Encoder(name, arrays).outermost(value)
    except RecursionError:
        raise TypeError("it contains itself") from None


class _Encoder:
    def __init__(self, name: str, arrays: dict[str, Any]) -> None:
        self._name, self._arrays = name, arrays

    def outermost(self, value: Any) -> Any:
        """Encode a value that is restored into one of the same class: a subclass of a container is one."""
        # Before the other containers: `maxlen` belongs to it.
        if isinstance(value, collections.deque):
            return self.encode(collections.deque(value, value.maxlen))
        for kind in _CONTAINERS:
            if isinstance(value, kind) and type(value).__module__ not in {"builtins", "collections"}:
                return self.encode(kind(value))
        # With any factory: it is restored into the object that has the factory.
        if type(value) is collections.defaultdict:
            return {"defaultdict": [getattr(value.default_factory, "__name__", None), self._items(value)]}
        return self.encode(value)

    def encode(self, value: Any) -> Any:
        kind = type(value)
        if kind in _PLAIN:
            return value
        # By exact class: a subclass of the script would come back as its base class.
        for encode in (self._text, self._number, self._container, self._object):
            code = encode(kind, value)
            if code is not None:
                return code
        raise TypeError(kind.__name__)

    def _text(self, kind: type, value: Any) -> Any:
        # Other time zones have rules, and not only an offset.
        if isinstance(getattr(value, "tzinfo", None), dt.tzinfo) and type(value.tzinfo) is not dt.timezone:
            return None
        return next(({name: to_text(value)} for name, (of, to_text, _) in _TEXTS.items() if kind is of), None)

    def _number(self, kind: type, value: Any) -> Any:
        if isinstance(value, np.generic) and not value.dtype.hasobject and value.dtype.names is None:
            return {"scalar": [value.dtype.name, base64.b64encode(value.tobytes()).decode()]}
        if isinstance(value, tf.Variable):
            return {"variable": self.encode(value.numpy())}
        if tf.is_tensor(value) and hasattr(value, "numpy"):
            return {"tensor": self.encode(value.numpy())}
        if kind is not np.ndarray or value.dtype.hasobject:
            return None
        key = f"{self._name}/{len(self._arrays)}"
        # A copy: the callback may change the array while the checkpoint is written.
        self._arrays[key] = np.array(value)
        is_raw = value.dtype.kind == "V" and value.dtype.names is None  # such as bfloat16, which files have as bytes
        return {"typed": [value.dtype.name, key]} if is_raw else {"array": key}

    def _container(self, kind: type, value: Any) -> Any:
        if kind in {list, tuple}:
            return {kind.__name__: [self.encode(each) for each in value]}
        if kind in {set, frozenset}:
            # Sorted, so that an equal set is encoded equally.
            return {kind.__name__: sorted((self.encode(each) for each in value), key=json.dumps)}
        if kind is collections.deque:
            return {"deque": [value.maxlen, [self.encode(each) for each in value]]}
        if kind is dict and all(type(key) is str for key in value):
            return {"dict": {key: self.encode(each) for key, each in value.items()}}
        if kind in {dict, collections.OrderedDict, collections.Counter}:
            return {"items" if kind is dict else kind.__name__: self._items(value)}
        if kind is collections.defaultdict and value.default_factory in {None, *_FACTORIES.values()}:
            return {"defaultdict": [getattr(value.default_factory, "__name__", None), self._items(value)]}
        if kind is range:
            return {"range": [value.start, value.stop, value.step]}
        return None

    def _object(self, kind: type, value: Any) -> Any:
        if kind is dt.timedelta:
            return {"timedelta": [value.days, value.seconds, value.microseconds]}
        if kind is np.random.Generator:
            return {"Generator": self.encode(value.bit_generator.state)}
        if kind is np.random.RandomState:
            return {"RandomState": self.encode(value.get_state(legacy=False))}
        if kind is random.Random:
            return {"Random": self.encode(value.getstate())}
        if not _has_name(kind):
            return None
        if issubclass(kind, enum.Enum):
            return {"enum": [_reference(kind), self.encode(value.value)]}
        if issubclass(kind, tuple):
            return {"namedtuple": [_reference(kind), [self.encode(each) for each in value]]}
        fields = {each.name: self.encode(getattr(value, each.name)) for each in dataclasses.fields(value)}
        return {"dataclass": [_reference(kind), fields]}

    def _items(self, value: Mapping[Any, Any]) -> list[Any]:
        return [[self.encode(key), self.encode(each)] for key, each in value.items()]


def decode_value(value: Any, arrays: Mapping[str, Any]) -> Any:
    """Return what `encode_value` was given, with its `arrays`.

    Raises:
        LookupError: the script does not have a class any more.
    """
    if not isinstance(value, dict):
        return value
    [(kind, content)] = value.items()

    def decode(part: Any) -> Any:
        return decode_value(part, arrays)

    if kind in _TEXTS:
        return _TEXTS[kind][2](content)
    if kind in {"array", "typed", "scalar", "tensor", "variable"}:
        return _decode_number(kind, content, arrays)
    if kind in _DECODERS:
        return _DECODERS[kind](content, decode)
    raise LookupError(f"{kind}: a kind of value of a later version")


def _decode_number(kind: str, content: Any, arrays: Mapping[str, Any]) -> Any:
    if kind == "array":
        return arrays[content]
    if kind == "typed":
        return arrays[content[1]].view(np.dtype(content[0]))
    if kind == "scalar":
        return np.frombuffer(base64.b64decode(content[1]), np.dtype(content[0]))[0]
    number = decode_value(content, arrays)
    return tf.constant(number) if kind == "tensor" else tf.Variable(number)


def _pairs(items: Any, decode: Callable[[Any], Any]) -> list[tuple[Any, Any]]:
    return [(decode(key), decode(each)) for key, each in items]


def _dataclass(content: Any, decode: Callable[[Any], Any]) -> Any:
    result: Any = object.__new__(_class(content[0]))
    for name, value in content[1].items():
        object.__setattr__(result, name, decode(value))  # also if it is frozen
    return result


def _generator(content: Any, decode: Callable[[Any], Any]) -> Any:
    state = decode(content)
    bits = getattr(np.random, state["bit_generator"])()
    bits.state = state
    return np.random.Generator(bits)


def _random_state(content: Any, decode: Callable[[Any], Any]) -> Any:
    result = np.random.RandomState()
    result.set_state(decode(content))
    return result


def _random(content: Any, decode: Callable[[Any], Any]) -> Any:
    result = random.Random()  # noqa: S311  the script's own
    result.setstate(decode(content))
    return result


_DECODERS: Final[Mapping[str, Callable[[Any, Callable[[Any], Any]], Any]]] = {
    "list": lambda content, decode: [decode(each) for each in content],
    "tuple": lambda content, decode: tuple(decode(each) for each in content),
    "set": lambda content, decode: {decode(each) for each in content},
    "frozenset": lambda content, decode: frozenset(decode(each) for each in content),
    "deque": lambda content, decode: collections.deque((decode(each) for each in content[1]), content[0]),
    "dict": lambda content, decode: {key: decode(each) for key, each in content.items()},
    "items": lambda content, decode: dict(_pairs(content, decode)),
    "OrderedDict": lambda content, decode: collections.OrderedDict(_pairs(content, decode)),
    "Counter": lambda content, decode: collections.Counter(dict(_pairs(content, decode))),
    "defaultdict": lambda content, decode: collections.defaultdict(
        _FACTORIES.get(content[0] or ""), _pairs(content[1], decode)
    ),
    "range": lambda content, _: range(*content),
    "timedelta": lambda content, _: dt.timedelta(*content),
    "enum": lambda content, decode: _class(content[0])(decode(content[1])),
    "namedtuple": lambda content, decode: _class(content[0])(*(decode(each) for each in content[1])),
    "dataclass": _dataclass,
    "Generator": _generator,
    "RandomState": _random_state,
    "Random": _random,
}


def restore_into(value: Any, existing: Any) -> Any:
    """Return `existing` with the content of the decoded `value` if it is a container of its class, else `value`.

    Other objects of the script may refer to the container, and one of a class of the script has more than its content.
    """
    kind = next((each for each in _CONTAINERS if isinstance(existing, each)), None)
    if kind is None or type(value) not in {kind, type(existing)} or value is existing:
        return value
    if isinstance(existing, collections.deque) and existing.maxlen != value.maxlen:
        return value
    # In place, because other objects of the script may refer to it.
    existing.clear()
    if isinstance(existing, list | collections.deque):
        existing.extend(value)
    else:
        existing.update(value)
    return existing


def _is_storable_class(kind: type) -> bool:
    is_namedtuple = issubclass(kind, tuple) and hasattr(kind, "_fields")
    return is_namedtuple or issubclass(kind, enum.Enum) or dataclasses.is_dataclass(kind)


def _reference(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


@functools.cache
def _has_name(kind: type) -> bool:
    """Return whether a class of the script is found by its name; still so when its main module has ended."""
    try:
        return _class(_reference(kind)) is kind
    except LookupError:
        return False


def _class(reference: str) -> type:
    """Return the class of this name, which a module that is imported already has; no module is imported for it.

    Raises:
        LookupError: there is none.
    """
    module, _, path = reference.partition(":")
    # Nothing is imported for a checkpoint: reading one must run no code.
    found: Any = sys.modules.get(module)
    for name in path.split("."):
        found = getattr(found, name, None)
    if not isinstance(found, type) or not _is_storable_class(found):
        raise LookupError(f"there is no class {path}")
    return found
