"""`onBadRecord: Skip` with TFRecord files in which some bytes have changed."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from tfdist_trainer.data import tfrecord
from tfdist_trainer.data.columns import DataColumn
from tfdist_trainer.data.files import FileAssignment
from tfdist_trainer.data.source import ReadOptions, open_source

pytestmark = pytest.mark.trainer

COLUMNS = (DataColumn("text", "string"), DataColumn("label", "int64", below=2))

DAMAGED: dict[str, tuple[list[int], list[int]]] = {
    "data": ([500], [20]),
    "a length": ([500], [1]),
    "the checksum of a length": ([500], [9]),
    "the first and the last record": ([0, 999], [25, 25]),
    "the length of the first record": ([0], [0]),
    "two lengths in succession": ([500, 501], [0, 7]),
    "data and lengths in several places": ([3, 4, 500, 700, 998], [20, 2, 22, 3, 21]),
}


@pytest.mark.parametrize("cache", [False, True], ids=["read in each epoch", "in memory"])
@pytest.mark.parametrize(("records", "octets"), DAMAGED.values(), ids=DAMAGED.keys())
def test_a_damaged_record_of_tfrecord_costs_no_other(
    records: list[int], octets: list[int], cache: bool, tmp_path: Path
) -> None:
    path = tmp_path / "x.tfrecord"
    arrays = {"text": np.array([f"{number:04d}" for number in range(1000)]), "label": np.arange(1000) % 2}
    tfrecord.write(str(path), arrays)
    content = bytearray(path.read_bytes())
    size = len(content) // 1000
    for record, octet in zip(records, octets, strict=True):
        content[record * size + octet] ^= 0x41
    path.write_bytes(content)
    options = ReadOptions(COLUMNS, "tfrecord", skip_bad=True, cache=cache)
    source = open_source(FileAssignment((str(path),), 1, 0), options)
    texts = [text for batch in source.batches() for text in batch["text"]]
    assert texts == [b"%04d" % number for number in range(1000) if number not in records]
    lost = 1 if records == [500, 501] else len(records)  # the number of records between two others is not known
    assert (source.count, source.skipped) == (1000 - len(records), lost)


def test_the_records_before_damage_in_compressed_records_are_checked_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "x.tfrecord.gz"
    labels = np.array([7 if number in {5, 1200} else 1 for number in range(1500)])
    tfrecord.write(str(path), {"text": np.array(["a"] * 1500), "label": labels}, gzip=True)
    content = bytearray(gzip.decompress(path.read_bytes()))
    content[1300 * (len(content) // 1500) + 20] ^= 1
    path.write_bytes(gzip.compress(content))
    options = ReadOptions(COLUMNS, "tfrecord", gzip=True, skip_bad=True)
    source = open_source(FileAssignment((str(path),), 1, 0), options)
    assert (source.count, source.skipped) == (1298, 202)
    assert len([text for batch in source.batches() for text in batch["text"]]) == 1298
