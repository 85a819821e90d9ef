"""Directories under the temporary directory belong to one user, though all users of a machine know their names."""

import os
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tfdist.api.training import RuntimeSpec
from tfdist_trainer import runtime
from tfdist_trainer.data import object_cache
from tfdist_trainer.errors import ConfigurationError
from tfdist_trainer.private_directory import private_directory

pytestmark = pytest.mark.trainer


@pytest.fixture(autouse=True)
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The temporary directory of a machine."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_directory_is_made_for_its_user_alone_and_used_again(shared: Path) -> None:
    made = private_directory("x")
    assert (made, mode_of(made)) == (shared / "x", 0o700)
    assert private_directory("x") == made


def test_a_directory_that_fs_group_has_opened_is_closed_again(shared: Path) -> None:
    (shared / "x").mkdir()
    (shared / "x").chmod(0o2775)
    assert mode_of(private_directory("x")) & 0o777 == 0o700


def as_link(path: Path) -> None:
    path.with_name("elsewhere").mkdir()
    path.symlink_to("elsewhere")


@pytest.mark.parametrize("make", [as_link, Path.touch])
def test_what_is_no_directory_is_not_used(make: Callable[[Path], None], shared: Path) -> None:
    make(shared / "x")
    with pytest.raises(ConfigurationError, match=rf"^{shared}/x: is not a directory of user .*; set TMPDIR to"):
        private_directory("x")


def test_a_directory_that_cannot_be_created_is_an_error_of_the_configuration(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(shared / "absent"))
    with pytest.raises(ConfigurationError, match="x: cannot be made private: No such file or directory; set TMPDIR"):
        private_directory("x")


@pytest.fixture
def others(shared: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """A function that lets another user make a directory first."""
    user = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: user)
    return lambda name: (shared / name.format(user)).mkdir()


def test_copies_of_objects_that_another_user_may_have_placed_are_not_read(
    others: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(object_cache.DIRECTORY_ENV, raising=False)
    others("tfdist-objects-{}")
    with pytest.raises(ConfigurationError, match="another one's; set TFDIST_DATA_CACHE to a directory of your own"):
        object_cache.objects.__wrapped__()


def test_settings_of_keras_that_another_user_may_have_placed_are_not_read(others: Callable[[str], None]) -> None:
    others("keras-{}")
    with pytest.raises(ConfigurationError, match="another one's; set TMPDIR"):
        runtime.prepare({}, RuntimeSpec())
    runtime.prepare({"KERAS_HOME": "/mine"}, RuntimeSpec())
