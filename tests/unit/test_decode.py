"""Reading JSON of any depth: shallow texts are read whole, deep ones without the parts below the limit."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfdist_operator.kube.json_bodies import MAX_DEPTH, LineBuffer, decode, flatten

TEXT = st.text(alphabet='"\\{}[]a\n,:é', max_size=8)
VALUES = st.recursive(
    st.none() | st.integers(-5, 5) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=10,
)


def wrapped(text: bytes, levels: int) -> bytes:
    return b'[{"a":' * (levels // 2) + text + b"}]" * (levels // 2)


@given(VALUES)
def test_a_shallow_text_is_read_as_it_is(value: Any) -> None:
    assert decode(orjson.dumps(value)) == value


@given(VALUES, VALUES)
def test_the_rest_of_an_object_with_a_deep_part_is_read(value: Any, inner: Any) -> None:
    """Given an object with a part of 1,100 levels; then the part is cut at the limit, and the rest is as it was."""
    deep = wrapped(orjson.dumps(inner), 1100)
    found = decode(b'{"before": %b, "deep": %b, "after": %b}' % (orjson.dumps(value), deep, orjson.dumps(value)))
    assert (found["before"], found["after"]) == (value, value)
    levels, rest = 1, found["deep"]
    while rest is not None:
        levels, rest = levels + 1, rest[0] if isinstance(rest, list) else rest["a"]
    assert levels == MAX_DEPTH


@pytest.mark.parametrize("levels", [MAX_DEPTH // 2, MAX_DEPTH - 2])
def test_a_text_of_many_brackets_that_is_not_deep_is_kept_as_it_is(levels: int) -> None:
    text = b'{"shallow": [%b], "deepest": %b}' % (b",".join([b"[]"] * 300), wrapped(b"[]", levels))
    assert flatten(text) is text


@pytest.mark.parametrize("deep", [MAX_DEPTH + 2, 900])
def test_a_text_that_orjson_reads_and_python_may_not_is_cut(deep: int) -> None:
    assert flatten(b'{"a": %b, "b": 1}' % wrapped(b"1", deep)).endswith(b', "b": 1}')
    assert flatten(b'{"a": %b}' % wrapped(b"1", deep)).count(b"[") <= MAX_DEPTH // 2


@given(st.lists(st.sampled_from((b"a", b"", b"\n", b"b\nc", b"\n\n", b"de\n"))))
def test_lines_are_the_same_in_whatever_pieces_they_arrive(pieces: list[bytes]) -> None:
    buffer = LineBuffer()
    found = [line for piece in pieces for line in buffer.feed(piece)]
    *lines, rest = b"".join(pieces).split(b"\n")
    assert (found, buffer.pending) == (lines, len(rest))


@pytest.mark.parametrize("text", [b"", b"{", b"}", b"[" * 2000, b"]" * 2000, b'{"a":' * 2000 + b'"', b"\xff", b"nan"])
def test_a_text_that_is_no_json_is_an_error(text: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        decode(text)
