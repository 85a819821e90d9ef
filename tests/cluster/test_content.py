"""Caching by content: only a complete output made from the same inputs counts as current."""

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
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


def test_an_entry_of_the_cache_is_made_once_for_its_key_and_next_to_those_of_other_keys(tmp_path: Path) -> None:
    first = content.cached(tmp_path, "kube", "a" * 64, _write("first"))
    other = content.cached(tmp_path, "kube", "b" * 64, _write("other"))
    again = content.cached(tmp_path, "kube", "a" * 64, _write("again"))
    assert (first.read_text(), other.read_text(), again) == ("first", "other", first)


def test_an_entry_of_the_cache_whose_build_was_killed_is_made_again(tmp_path: Path) -> None:
    def killed(path: Path) -> None:
        path.write_text("half")
        raise SystemExit

    with pytest.raises(SystemExit):
        content.cached(tmp_path, "kube", "a" * 64, killed)
    assert content.cached(tmp_path, "kube", "a" * 64, _write("whole")).read_text() == "whole"


def test_two_processes_that_need_one_entry_of_the_cache_make_it_once(tmp_path: Path) -> None:
    made: list[str] = []
    inside = threading.Barrier(2)

    def make(path: Path) -> None:
        made.append("by one of the two")
        path.write_text("whole")

    def needed() -> str:
        inside.wait()
        return content.cached(tmp_path, "kube", "a" * 64, make).read_text()

    with ThreadPoolExecutor(2) as pool:  # locks of files exclude threads as they exclude processes
        assert [each.result() for each in [pool.submit(needed), pool.submit(needed)]] == ["whole", "whole"]
    assert len(made) == 1


def test_the_versions_of_an_entry_that_were_used_last_stay(tmp_path: Path) -> None:
    def used(letter: str, seconds: int) -> Path:
        path = content.cached(tmp_path, "kube", letter * 64, _write(letter), kept=2)
        os.utime(path, (seconds, seconds))
        return path

    pause = content.cached(tmp_path, "pause", "c" * 64, _write("of another name"))
    first, second = used("a", 1), used("b", 2)
    used("a", 3)
    third = used("d", 4)
    assert (first.exists(), second.exists(), third.exists(), pause.exists()) == (True, False, True, True)
