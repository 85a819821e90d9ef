"""What a program learns from all training data before the first step: vocabularies, means and deviations.

Every worker reads its own part, and sums of all parts are exchanged; so each learns the same as one process that
reads everything, to the last digit of counts and to rounding of sums. It is stored as `program.json` beside the
checkpoints, which fit no other, and read from there by later attempts and by evaluations.
"""

import hashlib
import json
import zlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tfdist.contract import Task
from tfdist_trainer import atomic, log
from tfdist_trainer.context import Context
from tfdist_trainer.data.columns import Array
from tfdist_trainer.data.files import Split
from tfdist_trainer.errors import ConfigurationError, StorageError
from tfdist_trainer.programs.from_files import FromFiles

FILE: Final = "program.json"

Share = Callable[[Sequence[float]], npt.NDArray[np.float64]]
"""Adds equally many numbers over all members; a collective, see `Gang.share`."""

_OCTETS: Final = 6
"""Bytes in one float64 that travels; 2**48 is exact, also when a sum of equal parts rounds."""


class Learner(FromFiles, ABC):
    """A program that learns something before it has a model."""

    @abstractmethod
    def settings(self) -> Mapping[str, Any]:
        """Return all that what is learned depends on, apart from the data; ready for JSON."""

    @abstractmethod
    def learn(self, batches: Callable[[], Iterator[dict[str, Array]]], exchange: "Exchange") -> Mapping[str, Any]:
        """Return what all members learn, ready for JSON; a collective. `batches` reads this member's examples."""

    @abstractmethod
    def use(self, learned: Mapping[str, Any]) -> None:
        """Make use of what was learned, by `learn` or by an earlier attempt."""


class Exchange:
    """How members learn together.

    Args:
        share: adds numbers over all members.
        rank: this member's number.
        size: how many there are.
    """

    def __init__(self, share: Share, rank: int, size: int) -> None:
        self.add = share
        self._rank = rank
        self._size = size

    def count(self, counts: Mapping[str, int]) -> Counter[str]:
        """Return the sum of all members' `counts`; a collective."""
        if self._size == 1:
            return Counter(counts)
        content = zlib.compress(json.dumps(counts).encode())
        sizes = self.add([float(len(content)) if rank == self._rank else 0.0 for rank in range(self._size)])
        total: Counter[str] = Counter()
        for rank, size in enumerate(np.rint(sizes).astype(int)):
            # A power of two, so that few graphs are traced. One member after the other, to need little memory.
            words = 1 << int(-(-size // _OCTETS)).bit_length()
            mine = pack(content, words) if rank == self._rank else np.zeros(words)
            total.update(json.loads(zlib.decompress(unpack(self.add(mine.tolist()), int(size)))))
        return total


def pack(content: bytes, words: int) -> npt.NDArray[np.float64]:
    """Return `content` as `words` numbers, float64 [words], of six bytes each."""
    octets = np.zeros(words * _OCTETS, np.uint8)
    octets[: len(content)] = np.frombuffer(content, np.uint8)
    return octets.reshape(words, _OCTETS).astype(np.float64) @ (256.0 ** np.arange(_OCTETS))


def unpack(numbers: npt.NDArray[np.float64], size: int) -> bytes:
    """Return the `size` bytes that `pack` has made `numbers` of."""
    whole = np.rint(numbers).astype("<u8")
    return whole.view(np.uint8).reshape(-1, 8)[:, :_OCTETS].tobytes()[:size]


def prepare(context: Context) -> None:
    """Have the program learn what it needs, or read what it has learned before; a collective.

    Raises:
        StorageError: an evaluation, or a member, does not find what was learned.
        ConfigurationError: an evaluation's configuration is not that of the training.
        DataMissingError: a file does not exist.
        DataMalformedError: a file is not what the configuration says.
    """
    program = context.program
    if not isinstance(program, Learner):
        return
    settings = context.checkpoint
    path = Path(settings.directory, FILE) if settings is not None else None
    digest = hashlib.sha256(json.dumps(program.settings(), sort_keys=True).encode()).hexdigest()
    evaluates = context.member.job.task is Task.EVALUATE
    wanted = path is not None and (evaluates or settings is None or settings.restore != "None")
    found = _stored(path, digest, strict=evaluates) if path and wanted and context.member.is_chief else None
    if path is not None and context.gang.from_chief(float(found is not None)):
        learned = found if found is not None else _stored(path, digest, strict=True)
        log.event("learned-before", path=path)
    else:
        source = program.source(Split.TRAIN, context.shard)
        exchange = Exchange(context.gang.share, context.member.rank, context.member.size)
        learned = program.learn(source.batches, exchange)
        if path is not None and context.member.is_chief:
            _store(path, digest, learned, tag=context.writer.host)
        log.event("learned", examples=source.count)
    program.use(learned or {})


def _stored(path: Path, digest: str, *, strict: bool) -> Mapping[str, Any] | None:
    """Return what `path` says was learned with the same settings; None when it does not, unless `strict`."""
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        if stored["settings"] == digest:
            learned: Mapping[str, Any] = stored["learned"]
            return learned
    except (OSError, ValueError, KeyError, TypeError) as error:
        if strict:
            raise StorageError(
                f"{path}: cannot be read ({type(error).__name__}): training writes it beside its checkpoints"
            ) from None
        return None
    if strict:
        raise ConfigurationError(f"training.config: is not what {path} was made with; give that of the training")
    return None


def _store(path: Path, digest: str, learned: Mapping[str, Any], *, tag: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic.write_text(path, json.dumps({"settings": digest, "learned": learned}), tag=tag)
    except OSError as error:
        raise atomic.storage_failure(error, path.parent) from error
