# ruff: noqa: PLC0415  TensorFlow takes seconds to import, and most of these tests do without
"""Training data in object stores: what is read is what the same files on a disk give, and errors have the URL."""

import gzip
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.object_servers import BUCKET, ObjectServer

from tfdist.contract import ExitCode
from tfdist.programs.data import DataConfig
from tfdist_trainer.data import object_cache
from tfdist_trainer.data.columns import DataColumn
from tfdist_trainer.data.files import FileAssignment, Shard, Split
from tfdist_trainer.errors import ConfigurationError, DataMalformedError, DataMissingError, TrainerError
from tfdist_trainer.programs.data_files import assignment, kind

CSV = b"x,label\n" + b"".join(b"%d,%d\n" % (row, row % 3) for row in range(500))
COLUMNS = (DataColumn("x", "float32"), DataColumn("label", "int64", below=3))
FIELD = "training.config.data.train"


@pytest.fixture
def server(object_server: ObjectServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectServer]:
    """A server that the environment of this process names, with a cache of its own for the test."""
    for name, value in object_server.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv(object_cache.DIRECTORY_ENV, str(tmp_path / "cache"))
    object_cache.objects.cache_clear()
    yield object_server
    object_cache.objects.cache_clear()


@pytest.fixture
def put(server: ObjectServer, tmp_path: Path) -> Callable[[str, bytes], str]:
    """A function that writes an object into a folder of the test, and returns its URL.

    What is listed after it is listed again, as by a new process.
    """

    def write(key: str, content: bytes) -> str:
        object_cache.objects.cache_clear()
        return server.put(f"{tmp_path.name}/{key}", content)

    return write


def files(train: Any, index: int = 0, count: int = 1) -> list[str]:
    data = DataConfig.model_validate({"train": train})
    return list(assignment(data, Split.TRAIN, Shard(index, count)).files)


def read(train: Any, *, skip_bad: bool = False) -> dict[str, Any]:
    """Return the columns of all examples of `train`."""
    from tfdist_trainer.data.source import ReadOptions, open_source

    names = tuple(files(train))
    form, is_gzip = kind(DataConfig.model_validate({"train": train}), Split.TRAIN, names)
    options = ReadOptions(columns=COLUMNS, format=form, gzip=is_gzip, skip_bad=skip_bad)
    batches = list(open_source(FileAssignment(names, 1, 0), options).batches())
    return {key: np.concatenate([batch[key] for batch in batches]) for key in batches[0]}


def tfrecord_of(rows: range, path: Path) -> bytes:
    from tfdist_trainer.data import tfrecord

    values = np.asarray(rows)
    tfrecord.write(str(path), {"x": values.astype(np.float32), "label": values % 3}, gzip=path.suffix == ".gz")
    return path.read_bytes()


def contents(tmp_path: Path) -> dict[str, bytes]:
    """Return a file of each kind of reader."""
    import io

    archive = io.BytesIO()
    np.savez(archive, x=np.arange(9, dtype=np.float32), label=np.arange(9) % 3)
    lines = "".join(json.dumps({"x": row, "label": row % 3}) + "\n" for row in range(50))
    return {
        "a.csv": CSV,
        "a.csv.gz": gzip.compress(CSV),
        "a.jsonl": lines.encode(),
        "a.npz": archive.getvalue(),
        "a.tfrecord": tfrecord_of(range(300), tmp_path / "a.tfrecord"),
        "a.gz": tfrecord_of(range(300), tmp_path / "a.gz"),
    }


def test_objects_give_the_examples_of_the_same_files_on_a_disk(put: Callable[..., str], tmp_path: Path) -> None:
    for name, content in contents(tmp_path).items():
        (tmp_path / name).write_bytes(content)
        here, there = read(str(tmp_path / name)), read(put(name, content))
        assert here.keys() == there.keys()
        for column, values in here.items():
            assert values.dtype == there[column].dtype
            assert values.tobytes() == there[column].tobytes(), name


def test_uncompressed_tfrecord_objects_are_read_by_index(put: Callable[..., str], tmp_path: Path) -> None:
    from tfdist_trainer.data.batches import BatchOrder
    from tfdist_trainer.data.source import IndexedSource

    urls, paths = [], []
    for part in range(3):
        path = tmp_path / f"train-{part}"
        urls.append(put(path.name, tfrecord_of(range(part * 50, part * 50 + 40 + part), path)))
        paths.append(str(path))
    ordered = [
        [
            batch.numpy().tolist()
            for batch, _ in IndexedSource(names, COLUMNS).ordered_batches(BatchOrder(16, seed=7), 100)
        ]
        for names in (files(f"{urls[0][:-1]}*"), paths)
    ]
    assert ordered[0] == ordered[1]


def test_a_pattern_finds_the_keys_that_it_would_find_on_a_disk(put: Callable[..., str]) -> None:
    names = ["a/x-1.csv", "a/x-2.csv", "a/b/x-3.csv", "a/.x-4.csv", "c/x-5.csv", "a/ü ß+%&.csv", "a/x[6].csv"]
    urls = {name: put(name, CSV) for name in names}
    folder = urls[names[0]].removesuffix(names[0])
    found = {
        "a/x-*.csv": ["a/x-1.csv", "a/x-2.csv"],
        "a/x-1.csv": ["a/x-1.csv"],
        "*/x-?.csv": ["a/x-1.csv", "a/x-2.csv", "c/x-5.csv"],
        "a/**/x-*.csv": ["a/b/x-3.csv", "a/x-1.csv", "a/x-2.csv"],
        "a/*+*.csv": ["a/ü ß+%&.csv"],
        "a/x[[]*.csv": ["a/x[6].csv"],
    }
    for pattern, expected in found.items():
        assert files(folder + pattern) == [urls[name] for name in expected]
        assert object_cache.objects().path(urls[expected[0]]).read_bytes() == CSV


def test_workers_divide_objects_as_files_and_download_only_their_own(put: Callable[..., str], tmp_path: Path) -> None:
    urls = [put(f"x-{number}.csv", CSV + b"%d,0\n" % number) for number in range(4)]
    own = files(f"{urls[0][:-5]}?.csv", index=1, count=2)
    assert own == [urls[1], urls[3]]
    object_cache.download(own)
    assert len(list((tmp_path / "cache").iterdir())) == 2


def test_a_list_in_a_bucket_names_objects_next_to_it_and_elsewhere(put: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "local.csv").write_bytes(CSV)
    first, other = put("data/a.csv", CSV), put("data/b.csv", CSV)
    lines = f"# of today\n../data/a.csv\n{other}\n{tmp_path}/local.csv\n"
    listed = put("lists/train.txt", lines.encode())
    assert sorted(files({"fileList": listed})) == sorted([first, other, f"{tmp_path}/local.csv"])
    absent = put("lists/absent.txt", b"a.csv\n")
    with pytest.raises(
        DataMissingError, match=f"{FIELD}: {absent}: line 1: no file matches '.*/lists/a.csv'; check th"
    ):
        files({"fileList": absent})
    itself = put("lists/self.txt", b"*\n")
    with pytest.raises(DataMalformedError, match=f"{itself}: line 1: the list names itself"):
        files({"fileList": itself})
    with pytest.raises(DataMissingError, match=rf"{FIELD}: .*lists/none.txt: there is no such object"):
        files({"fileList": absent.replace("absent", "none")})
    foreign = put("lists/foreign.txt", b"hdfs://x/a.csv\n")
    with pytest.raises(ConfigurationError, match=r"foreign.txt: line 1: 'hdfs://x/a.csv': hdfs:// is not supported"):
        files({"fileList": foreign})


def test_images_in_idx_objects_have_their_labels_in_the_matching_object(put: Callable[..., str]) -> None:
    from tfdist_trainer.data import idx

    images = put("train-images-idx3-ubyte", bytes([0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 1, 7, 8]))
    with pytest.raises(
        DataMissingError, match=rf"{images}: there is no file .*train-labels-idx1-ubyte with its labels"
    ):
        idx.labels_of(images)
    labels = put("train-labels-idx1-ubyte", bytes([0, 0, 8, 1, 0, 0, 0, 2, 1, 0]))
    assert idx.labels_of(images) == labels
    assert idx.read(images).reshape(-1).tolist() == [7, 8]


def test_an_error_in_a_record_has_the_url_of_its_object(put: Callable[..., str], tmp_path: Path) -> None:
    csv = put("bad.csv", b"x,label\n1,0\n2,7\n")
    with pytest.raises(DataMalformedError, match=f"^{csv}: line 3: 'label' is 7, expected 0 to 2"):
        read(csv)
    content = tfrecord_of(range(20), tmp_path / "cut")
    cut = put("cut.tfrecord", content[:-3])
    with pytest.raises(DataMalformedError, match=f"^{cut}: damaged or not a TFRecord file, after 19 records"):
        read(cut)
    damaged = put("damaged.tfrecord", content[:-8] + b"????????")
    from tfdist_trainer.data import tfrecord
    from tfdist_trainer.data.columns import BadRecords

    with pytest.raises(DataMalformedError, match=f"^{damaged}: record 19: damaged: its checksum is wrong"):
        tfrecord.check(damaged, COLUMNS, BadRecords(skip=False), gzip=False)
    archive = put("no.npz", b"PK no archive")
    with pytest.raises(DataMalformedError, match=f"^{archive}: not a readable .npz file"):
        read(archive)
    compressed = put("text.gz.tfrecord", gzip.compress(CSV))
    with pytest.raises(DataMalformedError, match=rf"^{compressed}: .*begins like a GZIP file: set data.compression"):
        read(compressed)


def fails_with(code: ExitCode, message: str, train: str) -> None:
    with pytest.raises(TrainerError, match=message) as raised:
        files(train)
    assert raised.value.exit_code is code
    assert "\n" not in str(raised.value)


def test_what_is_missing_is_named(server: ObjectServer, put: Callable[..., str]) -> None:
    url = put("a.csv", CSV)
    fails_with(ExitCode.DATA_MISSING, f"{FIELD}: no file matches '{url}x'; check the bucket and the key", f"{url}x")
    if server.scheme == "s3":  # the other server answers 500
        message = f"{FIELD}: s3://no-such-{BUCKET}: there is no such bucket; check its name and the server, AWS_END"
        fails_with(ExitCode.DATA_MISSING, message, f"s3://no-such-{BUCKET}/a.csv")


@pytest.mark.parametrize("wrong", ["AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID"])
def test_wrong_credentials_are_an_error_of_the_configuration_without_their_values(
    wrong: str, server: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    if server.scheme == "gs":
        pytest.skip("the server checks no credentials")
    monkeypatch.setenv(wrong, "wrong-value")
    message = rf"{FIELD}: s3://{BUCKET}: access is denied: HTTP 40\d .*; set AWS_ACCESS_KEY_ID and .* from a Secret by"
    fails_with(ExitCode.CONFIGURATION, message, server.address("a.csv"))


def test_absent_credentials_are_an_error_of_the_configuration(
    server: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    if server.scheme == "gs":
        pytest.skip("the address of Google's metadata server cannot be changed")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", server.url)  # it answers, and not with credentials
    message = rf"{FIELD}: s3://{BUCKET}: no credentials were found; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    fails_with(ExitCode.CONFIGURATION, message, server.address("a.csv"))


def test_a_wrong_setting_is_an_error_of_the_configuration(
    server: ObjectServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if server.scheme == "s3":
        pytest.skip("files with credentials are those of Google")
    monkeypatch.delenv("GOOGLE_SKIP_SIGNATURE")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", f"{tmp_path}/absent.json")
    message = rf"{FIELD}: gs://{BUCKET}: .*absent.json.*; mount a key from a Secret and set GOOGLE_APPLICATION_CREDEN"
    fails_with(ExitCode.CONFIGURATION, message, server.address("a.csv"))


def test_without_obstore_the_error_has_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    for name in [name for name in sys.modules if name.startswith("obstore.")]:
        monkeypatch.delitem(sys.modules, name)
    object_cache.objects.cache_clear()
    message = (
        f"{FIELD}: s3://bucket is read by obstore, which is not installed: install obstore in the image, or use files"
    )
    fails_with(ExitCode.CONFIGURATION, message, "s3://bucket/a.csv")
