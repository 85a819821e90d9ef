"""The optimizers of a model, wherever it keeps them, with what builds them again in another process.

Keras saves `model.optimizer` alone. A GAN has its optimizers as attributes, others keep them in a list or dictionary,
in an object of their own, or in submodels that are compiled themselves. Each is stored with its place, such as
`parts['critic']`, which a script has again when it runs again.
"""

import functools
import sys
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import keras

from tfdist_trainer import log
from tfdist_trainer.keras.training_state import FitSnapshot, assign, fits, variables
from tfdist_trainer.upstream import keras_fit

MAIN: Final = "optimizer"
"""Place of the optimizer that a model is compiled with."""

_MOST_ITEMS: Final = 1000
"""Longer lists are data."""
_MOST_OBJECTS: Final = 100_000
_LIBRARIES: Final = sys.stdlib_module_names | {"keras", "numpy", "tensorflow", "tf_keras"}
"""Objects of their classes have no optimizer of the script."""
_applied: "weakref.WeakSet[Any]" = weakref.WeakSet()
"""Optimizers that have updated variables in this process."""


@functools.cache
def watch() -> None:
    """Record from now on which optimizers update variables."""
    keras_fit.wrap(keras_fit.APPLY, _record_applied)


def _record_applied(original: Callable[..., Any]) -> Callable[..., Any]:
    def apply(self: Any, *args: Any, **kwargs: Any) -> Any:
        _applied.add(self)
        return original(self, *args, **kwargs)

    return apply


def optimizers_of(model: Any) -> dict[str, Any]:
    """Return the optimizers of `model` by place: first the one that it is compiled with, and near ones before far ones.

    Lists, tuples, dictionaries, layers and objects of classes of the script are searched, each once.
    """
    found: dict[str, Any] = {}
    known: set[int] = set()
    waiting = deque([(MAIN, getattr(model, "optimizer", None)), ("", model)])
    # Breadth first, so that the nearest place names an optimizer; bounded, because a script may hang anything on its
    # model.
    while waiting and len(known) < _MOST_OBJECTS:
        place, value = waiting.popleft()
        if id(value) in known:
            continue
        if _is_optimizer(value):
            # A wrapper saves the optimizer inside of it.
            known |= {id(value), id(getattr(value, "inner_optimizer", value))}
            found[place] = value
        else:
            known.add(id(value))
            parts = _parts(place, value)
            # `__class__` of TensorFlow's wrapper of a list is `list`
            waiting.extend(each for each in parts if _is_optimizer(each[1]) or _is_searched(each[1].__class__))
    # The inner one may have been found first, by another attribute.
    inner = {id(getattr(each, "inner_optimizer", None)) for each in found.values()}
    return {place: each for place, each in found.items() if id(each) not in inner}


def _is_optimizer(value: Any) -> bool:
    return isinstance(value, keras.optimizers.Optimizer)


@functools.cache
def _is_searched(kind: type) -> bool:
    """Return whether an object of this class may have an optimizer of the script."""
    if issubclass(kind, list | tuple | dict | keras.Layer):
        return True
    return not issubclass(kind, type) and kind.__module__.partition(".")[0] not in _LIBRARIES


def _parts(place: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, list | tuple | dict) and len(value) > _MOST_ITEMS:
        return
    if isinstance(value, list | tuple):
        yield from ((f"{place}[{number}]", each) for number, each in enumerate(value))
    elif isinstance(value, dict):
        for number, (key, each) in enumerate(value.items()):
            yield f"{place}[{key!r}]" if isinstance(key, str | int) else f"{place}[#{number}]", each
    else:
        yield from ((f"{place}.{name}".lstrip("."), each) for name, each in _attributes(value))


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    yield from getattr(value, "__dict__", {}).items()
    for each in type(value).__mro__:
        slots = vars(each).get("__slots__", ())
        for name in [slots] if isinstance(slots, str) else slots:
            if name != "__dict__" and hasattr(value, name):
                yield name, getattr(value, name)


def encode_optimizers(models: Sequence[Any], arrays: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the optimizers of all `models` as JSON has them, with the values of their variables in `arrays`."""
    entries: list[dict[str, Any]] = []
    for number, model in enumerate(models):
        numbers = {id(variable): index for index, variable in enumerate(model.variables)}
        for place, optimizer in optimizers_of(model).items():
            arrays |= dict(variables(f"optimizer/{len(entries)}", model, optimizer.variables))
            indices = [numbers.get(id(each)) for each in keras_fit.built_variables(optimizer)]
            entries.append({"model": number, "place": place, "built": bool(optimizer.built), "variables": indices})
    return entries


def stored_entries(snapshot: FitSnapshot, number: int) -> dict[str, tuple[str, Mapping[str, Any]]]:
    """Return the stored optimizers of the model with this `number` by place, each with the name of its arrays."""
    entries = enumerate(snapshot.values["optimizers"])
    return {each["place"]: (f"optimizer/{key}", each) for key, each in entries if each["model"] == number}


def restore(number: int, model: Any, snapshot: FitSnapshot, path: str, *, of_later_fit: bool = False) -> None:
    """Give the optimizers of the model with this `number` their state, and build those that were built.

    Args:
        number: of the model, in the order of the first calls of `fit`.
        model: the model.
        snapshot: the state.
        path: of the checkpoint, or its URL.
        of_later_fit: whether the script may compile `model` again before training goes on: what does not fit is left.

    Raises:
        StorageError: the checkpoint has other optimizers.
    """
    optimizers, entries = optimizers_of(model), stored_entries(snapshot, number)
    for place, (owner, entry) in entries.items():
        optimizer = optimizers.get(place)
        # A model may have other optimizers when the script is changed; it goes on, and the log says what began again.
        if optimizer is None:
            _begins_again(place, "the model has no optimizer there now", wanted=entry["built"] and not of_later_fit)
        elif not _is_built_as(optimizer, model, entry):
            _begins_again(place, "it has variables that are not the model's", wanted=not of_later_fit)
        elif not _is_left(optimizer, owner, entry, snapshot, of_later_fit=of_later_fit):
            assign(owner, model, optimizer.variables, snapshot, path)
    for place in optimizers if entries else ():
        if place not in entries:
            _begins_again(place, "the checkpoint has no optimizer of this place", wanted=not of_later_fit)


def _is_left(
    optimizer: Any, owner: str, entry: Mapping[str, Any], snapshot: FitSnapshot, *, of_later_fit: bool
) -> bool:
    """Return whether an optimizer keeps its own state: it was not built yet, and is now, or is replaced later."""
    return (of_later_fit or not entry["built"]) and not fits(owner, optimizer.variables, snapshot)


def _begins_again(place: str, reason: str, *, wanted: bool) -> None:
    if wanted:
        log.event("optimizer-restarted", place=place, reason=reason)


def _is_built_as(optimizer: Any, model: Any, entry: Mapping[str, Any]) -> bool:
    """Build an optimizer that was built, and would be in the first step; return whether its state can be assigned."""
    if optimizer.built or not entry["built"]:
        return True
    if None in entry["variables"] or max(entry["variables"], default=0) >= len(model.variables):
        return False
    # The variables of the optimizer belong to the strategy, as the model's.
    with model.distribute_strategy.scope():
        optimizer.build([model.variables[index] for index in entry["variables"]])
    return True


def was_built(number: int, snapshot: FitSnapshot) -> bool:
    """Return whether the optimizer that a model is compiled with was built; true if the checkpoint does not have it."""
    _, entry = stored_entries(snapshot, number).get(MAIN, ("", {"built": True}))
    return bool(entry["built"])


def not_found(models: Sequence[Any]) -> list[Any]:
    """Return the optimizers that have updated variables of `models`, and are in none: no checkpoint has them."""
    found = [each for model in models for each in optimizers_of(model).values()]
    known = {id(part) for each in found for part in (each, getattr(each, "inner_optimizer", None))}
    trained = {id(variable) for model in models for variable in model.variables}
    # By what has updated variables: an optimizer in a local variable is in no model.
    missing = [each for each in _applied if id(each) not in known]
    return [each for each in missing if any(id(one) in trained for one in keras_fit.built_variables(each))]
