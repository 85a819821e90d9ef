"""Merge patches, slow start, durations."""

import asyncio
import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfdist.progress import duration
from tfdist_operator.kube.json_bodies import merge_patch
from tfdist_operator.kube.slow_start import slow_start

JSON = st.recursive(
    st.integers() | st.text(max_size=3) | st.lists(st.integers(), max_size=2),
    lambda inner: st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(max_size=2), JSON, max_size=4)


def applied(target: object, patch: object) -> object:
    """RFC 7386, section 2, as the RFC defines it."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = applied(result.get(name), value)
    return result


@given(old=OBJECTS, new=OBJECTS)
def test_a_merge_patch_makes_the_new_object_of_the_old(old: dict[str, object], new: dict[str, object]) -> None:
    assert applied(old, merge_patch(old, new)) == new


@given(same=OBJECTS)
def test_the_patch_between_equals_is_empty(same: dict[str, object]) -> None:
    assert merge_patch(same, same) == {}


async def test_a_rejection_stops_a_slow_start_after_one_request() -> None:
    sent: list[int] = []

    async def reject(item: int) -> None:
        sent.append(item)
        msg = "quota"
        raise PermissionError(msg)

    with pytest.raises(PermissionError):
        await slow_start(range(400), reject)
    assert sent == [0]


async def test_a_slow_start_that_is_cancelled_leaves_nothing_in_flight() -> None:
    begun = asyncio.Event()
    ended: list[int] = []

    async def send(item: int) -> None:
        if item < 3:
            return
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(item)

    sending = asyncio.create_task(slow_start(range(400), send))
    await begun.wait()
    sending.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await sending
    assert ended, "what was in flight has ended before the call did"


async def test_a_slow_start_sends_everything_once() -> None:
    sent: list[int] = []

    async def send(item: int) -> None:
        sent.append(item)

    await slow_start(range(400), send)
    assert sent == list(range(400))


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (59, "59s"), (60, "1m"), (80, "1m20s"), (3600, "1h"), (11100, "3h5m")]
)
def test_durations_read_as_kubectls(seconds: int, text: str) -> None:
    assert duration(seconds) == text
