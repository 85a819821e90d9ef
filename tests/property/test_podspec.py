"""Pod templates: the check accepts or rejects any JSON, and merging has the properties that layers rely on."""

import contextlib
import copy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tfdist.podspec import merge, parse_quantity, problems, schema
from tfdist.podspec.schema import Field
from tfdist.podspec.unions import union_members

Json = dict[str, Any]

TYPES = sorted(schema.types())
FIELDS = sorted({field for kind in schema.types().values() for field in kind.fields})
WORDS = st.sampled_from([*FIELDS, "a", "b", ""]) | st.text(max_size=5)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | WORDS
ANY_JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=5), max_leaves=25
)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "string": st.sampled_from(["a", "b", "c"]),
    "boolean": st.booleans(),
    "int32": st.integers(0, 3),
    "int64": st.integers(0, 3),
    "quantity": st.sampled_from(["1", "500m", "1Gi"]),
    "int-or-string": st.sampled_from([80, "web"]),
    "time": st.just("2030-01-01T00:00:00Z"),
    "object": st.just({}),
}
LAYERED = ["ObjectMeta", "PodSpec", "Container", "PodTemplateSpec"]


@st.composite
def value(draw: st.DrawFn, field: Field, depth: int) -> Any:
    """A value of a field, or of one item of it, as a layer has it: only keys are required."""
    if field.enum:
        return draw(st.sampled_from(field.enum))
    if field.type in VALUES:
        return draw(VALUES[field.type])
    return draw(layer(field.type, depth, field.keys))


@st.composite
def layer(draw: st.DrawFn, type_name: str, depth: int = 5, keys: tuple[str, ...] = ()) -> Json:
    """A well-formed part of a template. Of fields that exclude each other only the first is drawn.

    Otherwise merging is not associative: whether a layer between two others clears a source depends on the order.
    """
    fields = schema.types()[type_name].fields
    barred = set(sorted(union_members(type_name))[1:])
    allowed = sorted(name for name in fields if name not in barred and depth > 0)
    names = draw(st.sets(st.sampled_from(allowed), max_size=4)) if allowed else set()
    return {name: draw(content(fields[name], depth - 1)) for name in sorted(names | set(keys))}


@st.composite
def content(draw: st.DrawFn, field: Field, depth: int) -> Any:
    """A layer's value of a field; the items of a list with a key have different keys."""
    if field.shape == "map":
        return draw(st.dictionaries(st.sampled_from(["a", "b", "c"]), value(field, depth), max_size=3))
    if field.shape == "one":
        return draw(value(field, depth))
    by = (lambda item: item[field.keys[0]]) if field.keys else repr
    return draw(st.lists(value(field, depth), max_size=3, unique_by=by))


@settings(max_examples=300)
@given(st.sampled_from(TYPES), ANY_JSON, st.sets(st.sampled_from(TYPES), max_size=3))
def test_the_check_raises_for_no_json(type_name: str, anything: Any, partial: set[str]) -> None:
    before = copy.deepcopy(anything)
    for path, text in problems(anything, type_name, "at", partial):
        assert path.startswith("at")
        assert 0 < len(text) < 500
    assert repr(anything) == repr(before)


@settings(max_examples=150)
@given(st.sampled_from(TYPES), st.data())
def test_a_well_formed_part_of_each_type_has_no_error(type_name: str, data: st.DataObject) -> None:
    made = data.draw(layer(type_name))
    assert list(problems(made, type_name, "at", frozenset(TYPES))) == []


@settings(max_examples=150)
@given(st.sampled_from(LAYERED), st.data())
def test_merging_has_the_properties_that_layers_rely_on(type_name: str, data: st.DataObject) -> None:
    a, b, c = (data.draw(layer(type_name)) for _ in range(3))
    before = copy.deepcopy((a, b, c))
    assert merge({}, a, type_name) == a, "nothing below changes nothing"
    assert merge(a, {}, type_name) == a, "nothing above changes nothing"
    assert merge(a, a, type_name) == a, "the same twice is the same"
    left = merge(merge(a, b, type_name), c, type_name)
    assert left == merge(a, merge(b, c, type_name), type_name), "layers may be joined in any order of work"
    assert (a, b, c) == before, "layers stay as they are"
    assert list(problems(left, type_name, "at", frozenset(TYPES))) == [], "what is well-formed stays so"


@settings(max_examples=300)
@given(st.sampled_from(TYPES), ANY_JSON, ANY_JSON)
def test_merging_raises_for_no_json(type_name: str, lower: Any, higher: Any) -> None:
    merge({"spec": lower, "env": lower}, {"spec": higher, "env": higher}, type_name)
    merge(lower if isinstance(lower, dict) else {}, higher if isinstance(higher, dict) else {}, type_name)


@given(st.text(alphabet="0123456789.eE+-numkKMGTPi ", max_size=8))
def test_a_text_is_a_quantity_of_at_least_0_or_a_value_error(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert parse_quantity(text) >= 0
