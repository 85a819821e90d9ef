"""How long the input of training takes to its first batch at the start of an epoch, and within it after a resume.

The records are in uncompressed TFRecord files, which are read by index. A process opens them once, and starts at each
place in turn: what a resume does otherwise, such as restoring variables, does not depend on the place.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any, Final

from bench.results import Row, Samples, Target
from bench.trainer.processes import reported

RECORDS: Final = 200_000
FILES: Final = 4
BATCH: Final = 128
ROUNDS: Final = 7
PLACES: Final = (0, 50, 90)
"""Used examples of the epoch, in percent."""
AS_AT_0: Final = Target(ratio=1.2, text="<= 20 % more than at 0 %")


def run(folder: Path) -> list[Row]:
    """Return the seconds to the first batch at each place; the peer of the others is that at 0 %."""
    folder.mkdir()
    samples = Samples()
    for figures in reported("bench.trainer.resume", str(folder)):
        samples.add(figures)
    return [_row(samples, place) for place in PLACES]


def _row(samples: Samples, place: int) -> Row:
    name, first = str(place), str(PLACES[0])
    title = f"train: first batch at {place} % of an epoch of {RECORDS:,} records"
    note = f"{samples.spread(name)} s"
    if name == first:
        return Row(title, samples.median(name), None, "s", note=note)
    return Row(title, samples.median(name), samples.median(first), "s", AS_AT_0, note, samples.ratio(name, first))


def main(folder: Path) -> None:
    """Write the records, and print the seconds to the first batch at each place, of each round."""
    from tfdist_trainer.checkpoint import DataCursor  # noqa: PLC0415  the process that starts this one needs none of it

    write_records(folder, RECORDS)
    pipeline = opened(str(folder))
    seconds = []
    for number in range(1 + ROUNDS):
        figures = {}
        for place in PLACES if number % 2 else reversed(PLACES):
            cursor = DataCursor(step=0, metric_sums=(RECORDS * place // 100,))
            began = time.monotonic()
            next(pipeline.iterator(1, range(1), cursor))
            figures[str(place)] = time.monotonic() - began
        seconds.append(figures)
    print(json.dumps(seconds[1:]), flush=True)  # the first round loads TensorFlow's kernels


def write_records(folder: Path, count: int) -> None:
    """Write files with this number of equal records: their content does not matter."""
    import numpy as np  # noqa: PLC0415  see `main`
    import tensorflow as tf  # noqa: PLC0415

    from tfdist_trainer.data.tfrecord import example  # noqa: PLC0415

    image = np.random.default_rng(0).integers(0, 256, (28, 28, 1)).astype(np.uint8)
    record = example({"image": image, "label": np.int64(1)})
    for number in range(FILES):
        with tf.io.TFRecordWriter(str(folder / f"train-{number}.tfrecord")) as writer:
            for _ in range(count // FILES):
                writer.write(record)


def opened(folder: str, **more: Any) -> Any:
    """Return the input pipeline of an only replica of the program `image_classification`, with `more` configuration."""
    import tensorflow as tf  # noqa: PLC0415  see `main`

    from tfdist.contract import ReplicaJob  # noqa: PLC0415
    from tfdist_trainer import programs  # noqa: PLC0415
    from tfdist_trainer.data.files import Shard, Split  # noqa: PLC0415
    from tfdist_trainer.environment import GangMember  # noqa: PLC0415
    from tfdist_trainer.input_pipeline import open_input_pipeline  # noqa: PLC0415
    from tfdist_trainer.strategies.replica_group import ReplicaGroup  # noqa: PLC0415

    place: dict[str, Any] = {"strategy": "OneDevice", "role": "worker", "index": 0, "replicas": {"worker": 1}}
    job = ReplicaJob(name="bench", namespace="default", uid="1", **place)
    gang = ReplicaGroup(GangMember(job=job, rank=0, size=1, addresses=()), tf.distribute.get_strategy())
    config = {"data": {"train": f"{folder}/*.tfrecord"}, "batchSizePerReplica": BATCH} | more
    choice = programs.choose("image_classification", config)
    program: Any = choice.create()
    return open_input_pipeline(gang, program.examples_by_index(Split.TRAIN, Shard(0, 1)), choice.config, "data.train")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
