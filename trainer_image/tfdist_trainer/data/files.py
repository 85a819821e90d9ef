"""Which files a pattern names, and which part of them each pipeline of the gang reads.

An input pipeline is one worker's. `Shard` says which of how many it is; `plan` decides whether pipelines
take whole files or every n-th record. All pipelines compute the same plan from the same list, so that
together they read every example exactly once, without talking to each other.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from glob import glob
from pathlib import Path
from typing import Final

from tfdist_trainer.errors import ConfigurationError, DataMissingError

MANY_FILES: Final = 10
"""Files for each pipeline from which on an uneven number of files no longer matters: the fullest pipeline has
at most a tenth more than the mean."""


WORKER: Final = re.compile(r"\{worker(?::0([1-9]))?\}")
"""Stands in a pattern for the number of a worker; `{worker:05}` for the number in five digits."""


class Split(StrEnum):
    """The two sets of examples of a job; the values are the names of their fields in `data`."""

    TRAIN = "train"
    EVAL = "eval"


@dataclass(frozen=True, slots=True)
class Shard:
    """Pipeline `index` of `count`."""

    index: int
    count: int


@dataclass(frozen=True, slots=True)
class Part:
    """What one pipeline reads: `files`, and of their records number k with k % `stride` == `offset`."""

    files: tuple[str, ...]
    stride: int
    offset: int


def expand(patterns: Sequence[str], field: str, worker: int | None = None) -> tuple[str, ...]:
    """Return the files that `patterns` name, sorted and without repetition.

    `{worker}` in a pattern stands for the number `worker`, or for anything when that is None.

    Raises:
        DataMissingError: a pattern matches nothing, or a file cannot be read.
    """
    found: set[str] = set()
    for pattern in patterns:
        named = _named(pattern, worker)
        matches = _matches(named)
        if not matches:
            raise DataMissingError(f"{field}: no file matches {named!r}; check the path and that the volume is mounted")
        found.update(matches)
    for name in sorted(found):
        _check_readable(name, field)
    return tuple(sorted(found))


def part_of(
    patterns: Sequence[str], field: str, shard: Shard, wanted: Callable[[str], bool] = lambda _name: True
) -> Part:
    """Return what pipeline `shard` reads of the `wanted` files among those that `patterns` name.

    With `{worker}` in the patterns the data is partitioned already, and the pipeline reads its own files whole.

    Raises:
        ConfigurationError: only some patterns have `{worker}`, or there are files of more workers than there are.
        DataMissingError: as of `expand`.
    """
    own = [bool(WORKER.search(pattern)) for pattern in patterns]
    if not any(own):
        return plan(tuple(filter(wanted, expand(patterns, field))), shard)
    if not all(own):
        raise ConfigurationError(f"{field}: give {{worker}} in all patterns or in none")
    for pattern in patterns:
        if extra := _matches(_named(pattern, shard.count)):
            raise ConfigurationError(
                f"{field}: {extra[0]} is for worker {shard.count}, and the last of {shard.count} is worker "
                f"{shard.count - 1}: its examples would never be read; partition the data anew, or change the replicas"
            )
    return Part(files=tuple(filter(wanted, expand(patterns, field, shard.index))), stride=1, offset=0)


def plan(files: Sequence[str], shard: Shard) -> Part:
    """Return what pipeline `shard` reads of `files`.

    Whole files when that is even, or nearly so; else every `shard.count`-th record of all files, which is
    always even to one record, but has every pipeline read every byte.
    """
    even = len(files) % shard.count == 0
    if even or len(files) >= MANY_FILES * shard.count:
        return Part(files=tuple(files[shard.index :: shard.count]), stride=1, offset=0)
    return Part(files=tuple(files), stride=shard.count, offset=shard.index)


def _named(pattern: str, worker: int | None) -> str:
    def number(found: re.Match[str]) -> str:
        return "*" if worker is None else str(worker).zfill(int(found[1] or 1))

    return WORKER.sub(number, pattern)


def _matches(pattern: str) -> list[str]:
    return [name for name in glob(pattern, recursive=True) if Path(name).is_file()]  # noqa: PTH207  absolute


def still_readable(name: str) -> None:
    """Check a file that could be read before.

    Raises:
        DataMissingError: it cannot.
    """
    try:
        with Path(name).open("rb"):
            return
    except OSError as error:
        raise DataMissingError(f"{name}: cannot be opened any more: {error.strerror}") from None


def _check_readable(name: str, field: str) -> None:
    try:
        with Path(name).open("rb"):
            return
    except OSError as error:
        raise DataMissingError(f"{field}: cannot open {name}: {error.strerror}") from None
