# ruff: noqa: PLC0415  TensorFlow takes seconds to import, and most of these tests do without
"""Text files: each is one example, its folder is its class, and a bad one is named and costs no other."""

import gzip
import itertools
from pathlib import Path
from typing import Any

import pytest

from tfdist_trainer.data import text_examples
from tfdist_trainer.data.columns import BadRecords, DataColumn
from tfdist_trainer.data.files import Pattern, Shard, file_assignment
from tfdist_trainer.errors import ColumnAbsentError, DataMalformedError

TEXT = DataColumn("text", "string")
NAMED = (TEXT, DataColumn("label", "string", choices=("neg", "pos")))
NUMBERED = (TEXT, DataColumn("label", "int64", below=2))


def written(path: Path, content: bytes | str) -> str:
    octets = content.encode() if isinstance(content, str) else content
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(gzip.compress(octets) if path.suffix == ".gz" else octets)
    return str(path)


@pytest.mark.parametrize("name", ["1.txt", "1.txt.gz", "1"])
def test_a_file_is_one_example_of_the_class_that_its_folder_names(name: str, tmp_path: Path) -> None:
    path = written(tmp_path / "pos" / name, '\ufeffA "good" film,\n\tcaf\u00e9.\r\n')
    found = text_examples.read(path, NAMED, BadRecords(skip=False))
    assert {key: array.tolist() for key, array in found.items()} == {
        "text": ['A "good" film,\n\tcaf\u00e9.\r\n'],
        "label": [1],
    }


def test_folders_may_be_named_by_the_numbers_of_classes(tmp_path: Path) -> None:
    path = written(tmp_path / "1" / "a.txt", "good")
    assert text_examples.read(path, NUMBERED, BadRecords(skip=False))["label"].tolist() == [1]


def test_files_are_decompressed_by_their_content(tmp_path: Path) -> None:
    path = written(tmp_path / "pos" / "1.txt", gzip.compress(b"good"))
    assert text_examples.read(path, NAMED, BadRecords(skip=False))["text"].tolist() == ["good"]
    Path(f"{path}.gz").write_bytes(b"bad")
    assert text_examples.read(f"{path}.gz", NAMED, BadRecords(skip=False))["text"].tolist() == ["bad"]


BAD_FILES: dict[str, tuple[str, tuple[DataColumn, ...], bytes, str]] = {
    "nothing": ("pos", NAMED, b"", ": line 1: the file has no text"),
    "white space": ("pos", NAMED, b" \n\n", ": line 1: the file has no text"),
    "a byte that is not UTF-8": (
        "pos",
        NAMED,
        b"a\r\nb\rc\ncaf\xe9",
        ": line 4: has the byte 0xe9, which is not UTF-8; convert the file",
    ),
    "zero bytes, as a crash leaves": ("pos", NAMED, b"a\n" + bytes(99), ": line 2: has the byte 0x00: the file is"),
    "damaged compression": ("pos", NAMED, gzip.compress(b"good" * 99)[:-12], ": is not readable: Compressed file"),
    "a folder that is no class": ("unsup", NAMED, b"a", ": 'label' is 'unsup', expected one of neg, pos"),
    "a folder that is no number": (
        "pos",
        NUMBERED,
        b"a",
        ": 'label' is 'pos', expected a whole number; list the names of the folders in training.config.classes",
    ),
    "a number that is no class": ("2", NUMBERED, b"a", ": 'label' is 2, expected 0 to 1"),
}


@pytest.mark.parametrize(("folder", "columns", "content", "message"), BAD_FILES.values(), ids=BAD_FILES.keys())
def test_a_bad_file_is_named_and_skipped_alone(
    folder: str, columns: tuple[DataColumn, ...], content: bytes, message: str, tmp_path: Path
) -> None:
    path = written(tmp_path / folder / "1.txt", content)
    with pytest.raises(DataMalformedError) as caught:
        text_examples.read(path, columns, BadRecords(skip=False))
    assert str(caught.value).startswith(f"{path}{message}")
    skipping = BadRecords(skip=True)
    found = text_examples.read(path, columns, skipping)
    assert {key: len(array) for key, array in found.items()} == {"text": 0, "label": 0}
    assert (skipping.count, skipping.first) == (1, str(caught.value))


def test_a_file_of_many_examples_is_rejected_before_all_of_it_is_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_examples, "_MAX_CHARACTERS", 1000)
    path = written(tmp_path / "pos" / "all.txt.gz", "good\n" * 200)
    assert len(text_examples.read(path, NAMED, BadRecords(skip=False))["text"]) == 1
    written(tmp_path / "pos" / "all.txt.gz", "good\n" * 201)
    message = "the file has more than 1,000 characters; .* for an example on each line use the format tsv or jsonl"
    with pytest.raises(DataMalformedError, match=message):
        text_examples.read(path, NAMED, BadRecords(skip=False))


def test_a_column_that_text_files_do_not_have_is_not_skipped(tmp_path: Path) -> None:
    path = written(tmp_path / "pos" / "1.txt", "good")
    message = r"1.txt: has no column '{}'; a text file has 'text', its content, and 'label', the name of its folder"
    with pytest.raises(ColumnAbsentError, match=message.format("weight")):
        text_examples.read(path, (*NAMED, DataColumn("weight", "float32")), BadRecords(skip=True))
    with pytest.raises(ColumnAbsentError, match=r"has no column 'text' of the shape \[3\]"):
        text_examples.read(path, (DataColumn("text", "float32", (3,)),), BadRecords(skip=True))


def test_another_format_is_named(tmp_path: Path) -> None:
    path = written(tmp_path / "pos" / "1.txt", "good".encode("utf-16"))
    with pytest.raises(
        DataMalformedError, match=r"1.txt: not readable as text: .* UTF-16 text file; convert it to UTF-8"
    ):
        text_examples.read(path, NAMED, BadRecords(skip=False))


@pytest.mark.trainer
@pytest.mark.parametrize("pipelines", [1, 2, 3])
def test_each_file_of_a_program_is_read_once_by_any_number_of_workers(pipelines: int, tmp_path: Path) -> None:
    from tfdist_trainer.data.source import ReadOptions, open_source
    from tfdist_trainer.programs import choose

    for number in range(23):
        content = b"\xff" if number % 5 == 4 else b"film %d" % number
        written(tmp_path / ("neg", "pos")[number % 2] / f"{number}.txt", content)
    pattern = Pattern(f"{tmp_path}/*/*.txt", "training.config.data.train")
    program: Any = choose(
        "text_classification", {"data": {"train": [pattern.text]}, "classes": ["neg", "pos"]}
    ).create()
    options = ReadOptions(program.columns(), "text", skip_bad=True)
    parts = [file_assignment([pattern], Shard(index, pipelines)) for index in range(pipelines)]
    sources = [open_source(part, options) for part in parts]
    batches: list[dict[str, Any]] = [batch for source in sources for batch in source.batches()]
    found = itertools.chain(*(zip(batch["text"].tolist(), batch["label"].tolist(), strict=True) for batch in batches))
    assert sorted(found) == sorted((b"film %d" % k, k % 2) for k in range(23) if k % 5 != 4)
    assert sum(source.skipped for source in sources) == 4
