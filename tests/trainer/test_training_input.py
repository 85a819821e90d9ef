"""Training examples are balanced over the members if whole files are uneven, and the log has each share."""

from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Barrier, Lock, Thread
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import pytest

from tfdist_trainer import training_input
from tfdist_trainer.checkpoint import DataCursor
from tfdist_trainer.data import npz, tfrecord
from tfdist_trainer.data.files import Shard
from tfdist_trainer.input_pipeline import InputPipeline
from tfdist_trainer.metrics.collection import MetricCollection
from tfdist_trainer.programs import choose
from tfdist_trainer.training_input import resume_cursor

pytestmark = pytest.mark.trainer


READING = Lock()
Config = Mapping[str, Any]
EMPTY: Final[Config] = MappingProxyType({})


class Gang:
    """A member of a gang of threads."""

    replicas_per_member = 1

    def __init__(self, rank: int, shared: list[float], barrier: Barrier) -> None:
        self.rank, self._shared, self._barrier = rank, shared, barrier
        self.replicas = len(shared)

    def all_gather(self, value: float) -> list[float]:
        self._shared[self.rank] = value
        self._barrier.wait(60)
        found = list(self._shared)
        self._barrier.wait(60)
        return found


class Context:
    """The part of a context that opens the input."""

    def __init__(self, program: Any, gang: Gang, seed: int) -> None:
        self.program, self.gang, self.config, self.seed = program, gang, program.config, seed
        self.shard = Shard(gang.rank, gang.replicas)


def one_at_a_time(read: Callable[..., Any]) -> Callable[..., Any]:
    """Return `read` for threads: NumPy parses the header of an array by `ast`, which may fail in several at a time.

    That is python/cpython#106905, in Python 3.11. Members are processes, which read in one thread.
    """

    def source(*args: Any) -> Any:
        with READING:
            return read(*args)

    return source


def opened(pattern: str, members: int, *, seed: int = 0, data: Config = EMPTY, **config: Any) -> list[InputPipeline]:
    """Return the input of each of `members` that open it at the same time, with more fields of `config` and `data`."""
    shared, barrier = [0.0] * members, Barrier(members)
    found: list[Any] = [None] * members

    def run(rank: int) -> None:
        columns = {"numeric": ["x"], "label": "x2", "batchSizePerReplica": 10}
        program: Any = choose("tabular", {"data": {"train": pattern, **data}} | columns | config).create()
        program.source = one_at_a_time(program.source)
        context: Any = Context(program, Gang(rank, shared, barrier), seed)
        found[rank] = training_input.open_training_input(context)

    threads = [Thread(target=run, args=(rank,)) for rank in range(members)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert all(found)
    return found


def write(folder: Path, *sizes: int) -> None:
    numbers = np.split(np.arange(float(sum(sizes))), np.cumsum(sizes)[:-1])
    for part, values in enumerate(numbers):
        npz.save(str(folder / f"part-{part}.npz"), x=values, x2=values)


def test_records_are_assigned_where_whole_files_are_uneven(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, 20, 2000)
    pipelines = opened(f"{tmp_path}/part-*", 2)
    assert [pipeline.examples.count for pipeline in pipelines] == [1010, 1010]
    assert {pipeline.steps for pipeline in pipelines} == {101}
    log = capsys.readouterr().out
    assert log.count("input-uneven examples=20,2000 ") == 2
    assert 'remedy="write more files, or files with equal numbers of records"' in log
    assert log.count("input files=2 sharding=record examples=1010 of=2020 stepsPerEpoch=101") == 2


@pytest.mark.parametrize("sizes", [(100, 100), (90, 110), (130, 70)])
def test_whole_files_are_read_where_they_are_even_or_nearly_so(
    sizes: tuple[int, int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, *sizes)
    pipelines = opened(f"{tmp_path}/part-*", 2)
    assert [pipeline.examples.count for pipeline in pipelines] == list(sizes)
    log = capsys.readouterr().out
    assert "input-uneven" not in log
    assert f"input files=1 sharding=file examples={sizes[0]} of=200 stepsPerEpoch={max(sizes) // 10}" in log


def test_partitioned_data_stays_with_its_workers_and_the_log_has_the_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, 20, 2000)
    pipelines = opened(f"{tmp_path}/part-{{worker}}.npz", 2)
    assert [pipeline.examples.count for pipeline in pipelines] == [20, 2000]
    log = capsys.readouterr().out
    assert "an epoch takes 200 steps instead of 101, most with a part of the global batch" in log
    assert 'remedy="partition the data evenly"' in log


def test_tfrecord_files_of_any_sizes_give_even_steps_without_a_second_opening(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for part, size in enumerate((20, 2000)):
        values = np.arange(size, dtype=np.float32)
        tfrecord.write(str(tmp_path / f"part-{part}.tfrecord"), {"x": values, "x2": values})
    pipelines = opened(f"{tmp_path}/part-*", 2)
    assert {pipeline.steps for pipeline in pipelines} == {101}
    log = capsys.readouterr().out
    assert "input-uneven" not in log
    assert log.count("input files=2 sharding=index examples=2020 of=2020 stepsPerEpoch=101") == 2


def test_every_example_is_read_once_also_where_most_files_are_empty(tmp_path: Path) -> None:
    write(tmp_path, 0, 0, 25)
    pipelines = opened(f"{tmp_path}/*", 3)
    assert sorted(pipeline.examples.count for pipeline in pipelines) == [8, 8, 9]


def write_records(folder: Path, *sizes: int) -> None:
    for part, size in enumerate(sizes):
        values = np.arange(size, dtype=np.float32)
        tfrecord.write(str(folder / f"part-{part}.tfrecord"), {"x": values, "x2": values})


def resumed_step(before: InputPipeline, now: InputPipeline) -> int:
    """Return the step in its epoch at which training with `now` resumes a checkpoint of step 3 with `before`."""
    sums = MetricCollection([])
    cursor = DataCursor(step=3, step_in_epoch=3, metric_sums=(30.0,), metrics=(("loss", 0),))
    cursor = cursor.model_copy(update={"sharding_signature": before.sharding_signature})
    by_index = now.examples.by_index
    return resume_cursor(cursor, now.sharding_signature, sums, by_index=by_index).step_in_epoch


OTHER_ORDERS: dict[str, dict[str, Any]] = {
    "seed": {"seed": 1},
    "shuffle buffer": {"shuffleBuffer": 50},
    "no shuffling": {"shuffleBuffer": 0},
    "interleave": {"data": {"interleave": 2}},
    "cache": {"data": {"cache": True}},
}


@pytest.mark.parametrize("other", OTHER_ORDERS.values(), ids=OTHER_ORDERS.keys())
def test_an_epoch_by_file_is_not_resumed_in_another_order(other: dict[str, Any], tmp_path: Path) -> None:
    write(tmp_path, 100, 100)
    pattern = f"{tmp_path}/part-*"
    before, same, now = opened(pattern, 2), opened(pattern, 2), opened(pattern, 2, **other)
    assert [resumed_step(before[0], member) for member in same] == [3, 3]
    assert [resumed_step(before[0], member) for member in now] == [0, 0]


@pytest.mark.parametrize("kind", ["npz", "tfrecord"])
def test_an_epoch_is_not_resumed_with_other_files_of_the_same_sizes(kind: str, tmp_path: Path) -> None:
    (write if kind == "npz" else write_records)(tmp_path, 50, 50)
    pattern = f"{tmp_path}/part-*"
    before = opened(pattern, 2)
    (tmp_path / f"part-1.{kind}").rename(tmp_path / f"part-2.{kind}")
    assert [resumed_step(before[0], member) for member in opened(pattern, 2)] == [0, 0]


def test_an_epoch_by_index_is_resumed_by_any_gang_and_buffer_but_not_with_another_seed(tmp_path: Path) -> None:
    write_records(tmp_path, 60, 40)
    pattern = f"{tmp_path}/part-*"
    (before,) = opened(pattern, 1)
    for same in (opened(pattern, 2), opened(pattern, 1, shuffleBuffer=50), opened(pattern, 1, data={"interleave": 2})):
        assert resumed_step(before, same[-1]) == 3
    for other in (opened(pattern, 2, seed=1), opened(pattern, 1, shuffleBuffer=0)):
        assert resumed_step(before, other[-1]) == 0
