"""Caching by content: only a complete output made from the same inputs counts as current."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tfdist_cluster import content


def _write(text: str) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        path.write_text(text)

    return make


def test_an_output_is_current_after_publishing_and_only_for_its_key(tmp_path: Path) -> None:
    output = tmp_path / "tool"
    content.publish(output, "key-1", _write("one"))
    assert content.is_current(output, "key-1")
    assert not content.is_current(output, "key-2")
    assert output.read_text() == "one"


def test_a_current_output_is_not_made_again(tmp_path: Path) -> None:
    output = tmp_path / "tool"
    content.publish(output, "key", _write("first"))
    content.publish(output, "key", _write("second"))
    assert output.read_text() == "first"


def test_the_output_of_a_build_killed_while_writing_is_not_current(tmp_path: Path) -> None:
    output = tmp_path / "tool"

    def killed(path: Path) -> None:
        path.write_text("half")
        raise SystemExit

    with pytest.raises(SystemExit):
        content.publish(output, "key", killed)
    assert not output.exists()
    content.publish(output, "key", _write("whole"))
    assert output.read_text() == "whole"


def test_an_older_output_is_not_current_after_a_build_killed_while_replacing_it(tmp_path: Path) -> None:
    output = tmp_path / "tool"
    content.publish(output, "old", _write("old"))

    def killed(_: Path) -> None:
        raise SystemExit

    with pytest.raises(SystemExit):
        content.publish(output, "new", killed)
    assert not content.is_current(output, "new")
    assert not content.is_current(output, "old")  # its key is removed first


def test_an_output_that_was_renamed_before_its_key_was_written_is_made_again(tmp_path: Path) -> None:
    output = tmp_path / "tool"
    output.write_text("renamed by a build that was killed before it wrote the key")
    assert not content.is_current(output, "key")
    content.publish(output, "key", _write("whole"))
    assert output.read_text() == "whole"


def test_an_incomplete_folder_is_removed_first(tmp_path: Path) -> None:
    output = tmp_path / "root"
    left = tmp_path / ".root.partial"
    (left / "etc").mkdir(parents=True)
    (left / "etc" / "stale").touch()

    def make(path: Path) -> None:
        assert not path.exists()
        path.mkdir()

    content.publish(output, "key", make)
    assert list(output.iterdir()) == []


def test_the_digest_of_files_covers_names_and_contents_without_caches(tmp_path: Path) -> None:
    (tmp_path / "a.go").write_text("x")
    before = content.files_digest([tmp_path])
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "a.pyc").write_text("y")
    assert content.files_digest([tmp_path]) == before
    (tmp_path / "a.go").write_text("z")
    changed = content.files_digest([tmp_path])
    assert changed != before
    (tmp_path / "a.go").rename(tmp_path / "b.go")
    assert content.files_digest([tmp_path]) != changed


def test_removing_a_link_to_a_folder_keeps_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "file").touch()
    link = tmp_path / "link"
    link.symlink_to(folder)
    content.remove(link)
    assert not link.exists()
    assert (folder / "file").exists()
