"""The repository's layout: what must never be there."""

import operator
import pathlib
import sysconfig

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_the_folder_operator_is_never_a_package() -> None:
    # the standard library has a module of this name; a package or a script of it here breaks Python itself
    assert not (ROOT / "operator" / "__init__.py").exists()
    assert not list((ROOT / "operator").rglob("operator.py"))


def test_the_module_operator_is_the_standard_librarys() -> None:
    assert operator.__file__ is not None
    assert operator.__file__.startswith(sysconfig.get_paths()["stdlib"])


def test_locked_requirements_name_no_index() -> None:
    for lock in (ROOT / "requirements").glob("*.txt"):
        text = lock.read_text()
        assert "--index-url" not in text
        assert "http" not in text.replace("aiohttp", "").replace("httptools", ""), lock
