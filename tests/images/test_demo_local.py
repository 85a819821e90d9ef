"""The demonstration without a cluster: which data it prepares, and for which job."""

from pathlib import Path

import pytest

from tfdist_cluster import content
from tfdist_cluster.errors import ClusterError
from tfdist_demo import data, on_this_machine

ROOT = Path(__file__).resolve().parents[2]


def test_the_example_reads_the_data_that_the_demonstration_prepares() -> None:
    assert on_this_machine.wants_data(ROOT / on_this_machine.EXAMPLE)
    assert not on_this_machine.wants_data(ROOT / "crds" / "samples" / "custom.yaml")


def test_an_example_that_is_not_there_is_told_in_words(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="EXAMPLE=FILE names another"):
        on_this_machine.wants_data(tmp_path / "none.yaml")


def test_data_that_was_prepared_is_not_prepared_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "fetch", lambda: pytest.fail("fetched again"))
    (tmp_path / "data").mkdir()
    content.write_atomically(content.key_file(tmp_path / "data"), content.digest(data.CONVERTER))
    on_this_machine.prepare(tmp_path)
    with pytest.raises(pytest.fail.Exception, match="fetched again"):
        on_this_machine.prepare(tmp_path / "other")
