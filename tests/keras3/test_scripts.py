"""A user's Keras script, unmodified, on two workers: both end with the same numbers, and with those of one process."""

from pathlib import Path
from typing import Any, Final

import pytest

from .expected import EXPECTED, FOLDERS, SCRIPTS, Equal
from .workers import assert_close, cluster, results

RUNNER: Final = Path(__file__).with_name("run_script.py")
QUICK: Final = {"custom_train_step", "image_classifier"}


def scripts() -> list[Any]:
    """Return the names of the scripts; `make test` runs two of them."""
    marks = {name: () if name in QUICK else (pytest.mark.long,) for name in EXPECTED}
    return [pytest.param(name, marks=marks[name], id=name) for name in EXPECTED]


def test_each_script_has_an_expectation() -> None:
    assert sorted(path.stem for path in SCRIPTS.glob("*.py")) == sorted(EXPECTED)


def test_each_script_is_in_one_folder() -> None:
    assert sorted(name for names in FOLDERS.values() for name in names) == sorted(EXPECTED)


@pytest.mark.trainer
@pytest.mark.parametrize("name", scripts())
def test_two_workers_end_with_the_same_numbers_as_one_process(name: str, tmp_path: Path) -> None:
    # given two workers in one folder, as pods share a volume
    script = str(SCRIPTS / f"{name}.py")
    first, second = results([str(RUNNER), script], tmp_path / "two", cluster(2))
    # then they have the same numbers
    assert_close(second, first, tolerance=0.0)
    # given one process without TF_CONFIG, where the mathematics is the same
    expected = EXPECTED[name]
    if isinstance(expected, Equal):
        options = ["--default-strategy"] if expected.without_strategy else []
        [alone] = results([str(RUNNER), *options, script], tmp_path / "one", [None])
        # then it has these numbers too
        assert_close(first, alone, tolerance=expected.tolerance)
