"""Expands patterns of files and of objects in object stores, and assigns the files to the input pipelines of the gang.

Each worker has one input pipeline, a `Shard`. `assign_files` assigns either whole files or every n-th record. All
pipelines compute the same assignment from the same list, so that together they read every example exactly once,
without communication.
"""

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from glob import glob, has_magic
from pathlib import Path
from typing import Final

from tfdist.programs.data import WORKER, url_problem
from tfdist_trainer.atomic import ABSENT, input_failure
from tfdist_trainer.data.object_cache import local, objects
from tfdist_trainer.errors import ConfigurationError, DataMalformedError, DataMissingError, TrainerError
from tfdist_trainer.storage.object_urls import is_url

MANY_FILES: Final = 10
"""Minimum of files per pipeline for which an uneven number is accepted: the largest pipeline has at most a tenth more
than the mean."""


class Split(StrEnum):
    """The two splits of a data set; the values are their field names in `data`."""

    TRAIN = "train"
    EVAL = "eval"


@dataclass(frozen=True, slots=True)
class Shard:
    """Pipeline `index` of `count`."""

    index: int
    count: int
    workers: int | None = None
    """Number of workers, for the only pipeline of the chief of `ParameterServer`, which reads for all of them."""


@dataclass(frozen=True, slots=True)
class FileAssignment:
    """The files that one pipeline reads, and the records in them: index k with k % `stride` == `offset`."""

    files: tuple[str, ...]
    stride: int
    offset: int


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern of files, and where it is written: the field of the job, or the line of a list of files."""

    text: str
    where: str
    list_file: str | None = None
    """The list of files that contains it."""


def expand(patterns: Sequence[Pattern], worker: int | None = None) -> tuple[str, ...]:
    """Return the files that match `patterns`, sorted and without duplicates.

    `{worker}` in a pattern is replaced by `worker`, or by a wildcard if that is None.

    Raises:
        DataMissingError: a pattern has no match, or a file or folder may not be read.
        StorageError: a file or folder cannot be read, or an object store cannot be reached.
        ConfigurationError: an object store denies access.
        DataMalformedError: a list of files names itself.
    """
    origins: dict[str, str] = {}
    for pattern in patterns:
        expanded = _with_worker(pattern.text, worker)
        matches = _matches(expanded, pattern.where)
        if not matches:
            remedy = f"check the {'bucket and the key' if is_url(expanded) else 'path and that the volume is mounted'}"
            raise DataMissingError(f"{pattern.where}: no file matches {expanded!r}; {remedy}")
        _check_not_list(pattern, matches)
        origins |= dict.fromkeys(matches, pattern.where)
    # Now, and not in the middle of an epoch.
    for name in sorted(origins):
        if not is_url(name):
            _check_readable(name, origins[name])
    return tuple(sorted(origins))


def file_assignment(
    patterns: Sequence[Pattern],
    shard: Shard,
    predicate: Callable[[str], bool] = lambda _name: True,
    *,
    by_record: bool = False,
) -> FileAssignment:
    """Return the assignment of pipeline `shard` among the files that match `patterns` and `predicate`.

    `{worker}` in the patterns means that the data is already partitioned: each pipeline reads the files of its worker,
    and the pipeline of a chief the files of all workers.

    Raises:
        ConfigurationError: only some patterns have `{worker}`, or there are files for more workers than exist.
        DataMissingError: as in `expand`.
    """
    partitioned = [is_partitioned([pattern]) for pattern in patterns]
    # All pipelines compute the same assignment from the same list, without communication.
    if not any(partitioned):
        return assign_files(tuple(filter(predicate, expand(patterns))), shard, by_record=by_record)
    if not all(partitioned):
        raise ConfigurationError(
            f"{patterns[partitioned.index(False)].where}: give {{worker}} in all patterns or in none"
        )
    if shard.workers:
        parts = [file_assignment(patterns, Shard(index, shard.workers), predicate) for index in range(shard.workers)]
        return FileAssignment(files=tuple(name for part in parts for name in part.files), stride=1, offset=0)
    for pattern in patterns:
        if extra := _matches(_with_worker(pattern.text, shard.count), pattern.where):
            raise ConfigurationError(
                f"{pattern.where}: {extra[0]} is for worker {shard.count}, and the last of {shard.count} is worker "
                f"{shard.count - 1}: its examples would never be read; partition the data again, or change the replicas"
            )
    return FileAssignment(files=tuple(filter(predicate, expand(patterns, shard.index))), stride=1, offset=0)


def is_partitioned(patterns: Sequence[Pattern]) -> bool:
    """Return whether `patterns` name the files of each worker, by `{worker}`."""
    return any(WORKER.search(pattern.text) for pattern in patterns)


def assign_files(files: Sequence[str], shard: Shard, *, by_record: bool = False) -> FileAssignment:
    """Return the assignment of pipeline `shard` among `files`.

    Whole files if their number is even, or nearly so. Otherwise, and with `by_record`, every `shard.count`-th record of
    all files, which is always even up to one record, but makes every pipeline read every byte.
    """
    is_even = len(files) % shard.count == 0
    if shard.count == 1 or (not by_record and (is_even or len(files) >= MANY_FILES * shard.count)):
        return FileAssignment(files=tuple(files[shard.index :: shard.count]), stride=1, offset=0)
    return FileAssignment(files=tuple(files), stride=shard.count, offset=shard.index)


def _with_worker(pattern: str, worker: int | None) -> str:
    def number(match: re.Match[str]) -> str:
        return "*" if worker is None else str(worker).zfill(int(match[1] or 1))

    return WORKER.sub(number, pattern)


def _matches(pattern: str, where: str) -> list[str]:
    if problem := url_problem(pattern):
        raise ConfigurationError(f"{where}: {problem}")
    if is_url(pattern):
        try:
            return objects().matches(pattern)
        except TrainerError as error:
            raise type(error)(f"{where}: {error}") from None
    try:
        # `glob` leaves out what it cannot list, and training would go on with a part of the data.
        _list_folders_of(pattern)
        return [name for name in glob(pattern, recursive=True) if Path(name).is_file()]  # noqa: PTH207  absolute
    except OSError as error:
        raise input_failure(error, f"{where}: cannot list the files of {pattern!r} in {error.filename}") from None


def _list_folders_of(pattern: str) -> None:
    """List the folders in which a pattern searches: `glob` leaves out silently those that it cannot list.

    Raises:
        OSError: one cannot be listed.
    """
    for folder in _searched_by(pattern):
        with contextlib.suppress(*ABSENT):
            os.scandir(folder).close()


def _searched_by(pattern: str) -> Iterator[str]:
    head, tail = os.path.split(pattern)
    if head != pattern and has_magic(head):
        yield from _searched_by(head)
    if has_magic(tail):
        yield from glob(str(Path(head, "**/")) + "/" if tail == "**" else head or ".", recursive=True)  # noqa: PTH207


def _check_not_list(pattern: Pattern, matches: Sequence[str]) -> None:
    """Raise `DataMalformedError` if the list of files that has `pattern` is one of its `matches`."""
    list_file = pattern.list_file
    for name in matches if list_file else ():
        if list_file and Path(name).name == Path(list_file).name and _is_same_file(name, list_file):
            remedy = "remove this line, or give its pattern the ending of the data files"
            raise DataMalformedError(f"{pattern.where}: the list names itself; {remedy}")


def _is_same_file(name: str, other: str) -> bool:
    return name == other if is_url(name) or is_url(other) else Path(name).samefile(other)


def still_readable(name: str) -> None:
    """Check that a file can still be read.

    Raises:
        DataMissingError: it does not exist any more, or may not be read.
        StorageError: it cannot be read.
    """
    try:
        with Path(local(name)).open("rb"):
            return
    except OSError as error:
        raise input_failure(error, f"{name}: cannot be opened any more") from None


def _check_readable(name: str, where: str) -> None:
    try:
        with Path(name).open("rb"):
            return
    except OSError as error:
        raise input_failure(error, f"{where}: cannot open {name}") from None
