"""State of a script's callbacks in a checkpoint: it comes back as what it was, or is named in the log."""

import collections
import dataclasses
import datetime as dt
import enum
import json
import math
import random
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import keras
import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from tfdist_trainer.keras import training_state
from tfdist_trainer.keras.callback_state import CallbackState
from tfdist_trainer.keras.stored_values import decode_value, encode_value
from tfdist_trainer.keras.training_state import FitSnapshot
from tfdist_trainer.stored_checkpoint import stored_checkpoint

pytestmark = pytest.mark.trainer


class Mine(keras.callbacks.Callback):  # type: ignore[misc]
    def __init__(self, patience: int = 3) -> None:
        super().__init__()
        self.patience = patience
        self.best = math.inf
        self.seen: Any = []
        self.file: Any = None


def test_what_a_callback_has_changed_is_restored_and_what_it_was_given_is_not(tmp_path: Path) -> None:
    # given
    before = Mine()
    state = CallbackState(before)
    before.best = np.float64(0.5)
    before.seen = {"steps": [1, 2.5, None, "three", True], "pair": (np.arange(3), [np.eye(2)])}
    before.file = open  # not a state that a checkpoint can have
    values, arrays = state.changes()
    FitSnapshot({f"a/{name}": array for name, array in arrays.items()}, values).write(str(tmp_path / "variables"))
    # when the script is run again, with another patience
    after = Mine(patience=7)
    read = training_state.read(stored_checkpoint(tmp_path))
    CallbackState(after).restore(read.values, {name.removeprefix("a/"): array for name, array in read.arrays.items()})
    # then
    assert (after.patience, after.best, after.file) == (7, 0.5, None)
    first, [second] = after.seen.pop("pair")
    assert after.seen == {"steps": [1, 2.5, None, "three", True]}
    np.testing.assert_array_equal(first, np.arange(3))
    np.testing.assert_array_equal(second, np.eye(2))


def test_an_unchanged_callback_has_no_state() -> None:
    assert CallbackState(keras.callbacks.EarlyStopping()).changes() == ({}, {})


def test_infinity_is_a_value() -> None:
    mine = Mine()
    state = CallbackState(mine)
    mine.best = -math.inf
    values, _ = state.changes()
    assert json.loads(json.dumps(values)) == {"best": -math.inf}


class Point(NamedTuple):
    x: Any
    y: Any


class Color(enum.IntEnum):
    RED = 1
    BLUE = 2


@dataclasses.dataclass(frozen=True, slots=True)
class Record:
    name: str
    values: Any


class Recent(collections.deque[Any]):
    pass


KEYS = st.one_of(st.integers(), st.text(max_size=5), st.tuples(st.integers(), st.booleans()), st.binary(max_size=4))
DTYPES = st.sampled_from(["float32", "int8", "bool", "complex64", "U3", "S2", "datetime64[s]", "float16"])
SCALARS = st.one_of(
    *(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=9), st.binary(max_size=9)),
    *(st.complex_numbers(allow_nan=False), st.decimals(allow_nan=False), st.fractions(), st.sampled_from(Color)),
    *(st.datetimes(), st.dates(), st.times(), st.timedeltas(), st.builds(range, st.integers(), st.integers())),
    *(st.builds(np.float32, st.integers(-9, 9)), st.builds(np.int64, st.integers(-9, 9)), st.builds(np.bool_)),
    *(st.builds(np.float64, st.floats(allow_nan=False)), st.builds(Path, st.just("a/b")), st.builds(bytearray)),
    st.datetimes(timezones=st.just(dt.UTC)),
)


def containers(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    items = st.dictionaries(KEYS, values, max_size=3)
    lists = st.lists(values, max_size=3)
    return st.one_of(
        *(lists, st.builds(tuple, lists), st.sets(KEYS, max_size=3), st.frozensets(KEYS, max_size=3)),
        *(items, st.builds(collections.OrderedDict, items), st.builds(Point, values, values)),
        st.builds(collections.defaultdict, st.sampled_from([int, list, None]), items),
        st.builds(collections.Counter, st.dictionaries(KEYS, st.integers(), max_size=3)),
        st.builds(collections.deque, lists, st.sampled_from([None, 2])),
        st.builds(Record, st.text(max_size=3), values),
    )


VALUES = st.recursive(SCALARS, containers, max_leaves=12)


def roundtrip(value: Any) -> Any:
    """Return what a checkpoint gives back of `value`."""
    arrays: dict[str, Any] = {}
    return decode_value(json.loads(json.dumps(encode_value(value, "a", arrays))), arrays)


def shape(value: Any) -> Any:
    """Return the classes of a value and of its parts, which `==` does not compare."""
    if isinstance(value, dict):
        more = getattr(value, "default_factory", None)
        return type(value), more, [(shape(key), shape(each)) for key, each in value.items()]
    if isinstance(value, collections.deque):
        return type(value), value.maxlen, [shape(each) for each in value]
    if isinstance(value, list | tuple):
        return type(value), [shape(each) for each in value]
    if isinstance(value, Record):
        return Record, shape(value.values)
    return type(value)


@settings(deadline=None)
@given(VALUES)
def test_a_value_of_these_kinds_comes_back_as_what_it_was(value: Any) -> None:
    found = roundtrip(value)
    assert (found, shape(found)) == (value, shape(value))


@settings(deadline=None)
@given(DTYPES.flatmap(lambda dtype: arrays_of.arrays(dtype, arrays_of.array_shapes(min_dims=0, min_side=0))))
def test_an_array_comes_back_with_its_type(array: Any) -> None:
    [found] = roundtrip([array])
    assert (found.dtype, found.shape, found.tobytes()) == (array.dtype, array.shape, array.tobytes())


def test_an_array_of_bfloat16_comes_back_from_a_file(tmp_path: Path) -> None:
    # given
    arrays: dict[str, Any] = {}
    value = encode_value(np.arange(3).astype(ml_dtypes.bfloat16), "a", arrays)
    FitSnapshot(arrays, {"value": value}).write(str(tmp_path / "variables"))
    # when
    read = training_state.read(stored_checkpoint(tmp_path))
    # then
    found = decode_value(read.values["value"], read.arrays)
    assert (found.dtype, found.tolist()) == (ml_dtypes.bfloat16, [0, 1, 2])


@pytest.mark.parametrize("make", [lambda: np.random.default_rng(3), lambda: np.random.RandomState(3), random.Random])
def test_a_random_generator_continues(make: Any) -> None:
    generator = make()
    generator.random(), generator.random()
    again = roundtrip(generator)
    assert [again.random() for _ in range(3)] == [generator.random() for _ in range(3)]


def test_tensors_and_variables_come_back_as_such() -> None:
    tensor, variable = roundtrip([tf.constant([1.0, 2.0]), tf.Variable(3)])
    assert isinstance(variable, tf.Variable)
    assert (tensor.numpy().tolist(), variable.numpy()) == ([1.0, 2.0], 3)


def loop() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


class Local:
    pass


@pytest.mark.parametrize(
    "value",
    [
        *(open, Local(), lambda: 0, loop(), [{1: Local()}], np.array([None]), np.ma.array([1])),
        [collections.defaultdict(lambda: 1)],
        dataclasses.make_dataclass("Unknown", ["x"])(1),
    ],
)
def test_what_cannot_be_stored_is_an_error(value: Any) -> None:
    with pytest.raises(TypeError):
        encode_value(value, "a", {})


def restored_into(before: Any, after: Any, change: Any) -> Any:
    """Restore what `change` does to one callback in another, and return that."""
    state = CallbackState(before)
    change(before)
    values, arrays = state.changes()
    CallbackState(after).restore(json.loads(json.dumps(values)), arrays)
    return after


def test_a_container_keeps_what_its_callback_has_made_of_it() -> None:
    # given containers with a factory, a length and a class of the script, to which others refer
    def make() -> Any:
        mine = Mine()
        mine.counts = collections.defaultdict(lambda: 5, first=1)
        mine.recent = Recent(maxlen=2)
        mine.seen = []
        mine.alias = mine.seen
        return mine

    def change(mine: Any) -> None:
        mine.counts["second"] += 1
        mine.recent.extend([1, 2, 3])
        mine.seen.append(4)

    # when
    after = restored_into(make(), make(), change)
    # then
    assert (after.counts["third"], dict(after.counts)) == (5, {"first": 1, "second": 6, "third": 5})
    assert (type(after.recent), after.recent.maxlen, [*after.recent]) == (Recent, 2, [2, 3])
    assert after.seen is after.alias
    assert after.seen == [4]


def test_a_value_of_a_class_that_is_gone_begins_again(capsys: pytest.CaptureFixture[str]) -> None:
    mine = Mine()
    CallbackState(mine).restore({"best": {"namedtuple": [f"{__name__}:Gone", [1]]}, "seen": {"list": [1]}}, {})
    assert (mine.best, mine.seen) == (math.inf, [1])
    assert "callback-restarted attribute=Mine.best" in capsys.readouterr().out


def test_what_no_checkpoint_has_is_named_but_for_constants(tmp_path: Path) -> None:
    # given
    mine: Any = Mine()
    mine.schedule, mine.other, mine.best, mine.price = print, None, 1, Decimal(1)
    state = CallbackState(mine)
    # when
    with (tmp_path / "file").open("w") as file:
        mine.file, mine.network, mine.other = file, keras.Sequential(), Local
        state.changes()
    # then
    assert dict(state.not_stored()) == {"file": "TextIOWrapper", "network": "Sequential", "other": "type"}


@pytest.mark.parametrize(
    "callback",
    [
        keras.callbacks.EarlyStopping(),
        keras.callbacks.LambdaCallback(on_epoch_end=print),
        keras.callbacks.TensorBoard("/none"),
        type("MyBoard", (keras.callbacks.TensorBoard,), {})("/none"),
        keras.callbacks.ModelCheckpoint("a.keras"),
    ],
)
def test_callbacks_of_keras_are_not_named(callback: Any) -> None:
    state = CallbackState(callback)
    callback._writers = {"train": Local()}
    state.changes()
    assert dict(state.not_stored()) == {}
