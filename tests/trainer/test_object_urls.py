"""URLs of objects and patterns of them, without a server."""

from glob import glob
from pathlib import Path
from typing import Any

import pytest

from tfdist.programs.data import url_problem
from tfdist_trainer.errors import ConfigurationError
from tfdist_trainer.programs import choose
from tfdist_trainer.storage.object_urls import join_url, matches

NAMES = ["a.csv", "b.csv", ".hidden.csv", "x/a.csv", "x/y/a.csv", "x/.h/a.csv", "x/[1].csv", "a.txt", "ab/c.csv"]


@pytest.mark.parametrize(
    "pattern", ["*.csv", "?.csv", "*/a.csv", "**/a.csv", "x/**/a.csv", "x/**", "[ab].*", ".h*", "x/[[]1].csv"]
)
def test_a_pattern_matches_the_keys_that_glob_would_match(pattern: str, tmp_path: Path) -> None:
    for name in NAMES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    expected = {str(each) for each in NAMES if each in _globbed(tmp_path, pattern)}
    assert expected
    assert {each for each in NAMES if matches(each.split("/"), pattern.split("/"))} == expected


def _globbed(folder: Path, pattern: str) -> set[str]:
    return set(glob(pattern, root_dir=folder, recursive=True))  # noqa: PTH207  what data files are found by


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("b.csv", "s3://bucket/lists/b.csv"),
        ("../data/*.csv", "s3://bucket/data/*.csv"),
        ("./b.csv", "s3://bucket/lists/b.csv"),
        ("gs://other/b.csv", "gs://other/b.csv"),
        ("/data/b.csv", "/data/b.csv"),
    ],
)
def test_a_line_of_a_list_in_a_bucket_is_relative_to_the_folder_of_the_list(name: str, expected: str) -> None:
    assert join_url("s3://bucket/lists", name) == expected


@pytest.mark.parametrize(
    "name", ["/data/a.csv", "a.csv", "s3://bucket/a-*.csv", "gs://bucket/x/{worker:05}.csv", "c:/x"]
)
def test_paths_and_urls_of_objects_are_accepted(name: str) -> None:
    assert url_problem(name) is None


@pytest.mark.parametrize(
    ("train", "message"),
    [
        (
            "hdfs://name/a.csv",
            r"data.train: .*hdfs:// is not supported; use gs://bucket/key, s3://bucket/key, or the p",
        ),
        ("s3a://bucket/a.csv", r"data.train: .*s3a:// is not supported"),
        ("https://host/a.csv", r"data.train: .*https:// is not supported"),
        ("S3://bucket/a.csv", r"data.train: .*S3:// is not supported"),
        (["/data/a.csv", "s3:///a.csv"], r"data.train: .*'s3:///a.csv' needs the name of a bucket"),
        ("s3://bucket-*/a.csv", r"data.train: .*needs the name of a bucket, without wildcards"),
        ("gs://bucket", r"data.train: .*'gs://bucket' needs the key of an object, or a pattern of keys"),
        ("gs://bucket/folder/", r"data.train: .*needs the key of an object, or a pattern"),
        ({"fileList": "ftp://host/list"}, r"data.train.fileList: .*ftp:// is not supported"),
    ],
)
def test_a_url_that_cannot_be_read_is_rejected_by_its_field(train: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=f"training.config.{message}"):
        choose("tabular", {"data": {"train": train}, "numeric": ["x"]})
