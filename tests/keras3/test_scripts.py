"""A user's Keras script, unmodified, on workers: all end with the same numbers, and with those of one process."""

from pathlib import Path
from typing import Any, Final

import pytest

from .expected import EXPECTED, FOLDERS, SCRIPTS, Equal
from .workers import assert_close, cluster, results

RUNNER: Final = Path(__file__).with_name("run_script.py")
QUICK: Final = {
    *(("audio_classification", 2), ("autoencoder", 2), ("custom_train_step", 3), ("deep_q_network", 2)),
    *(("image_classifier", 2), ("images_from_folder", 2), ("node_classification", 2), ("structured_data", 2)),
    *(("text_with_masks", 2), ("timeseries_convolution", 2)),
}
"""One of each folder, for `make test`."""
ON_THREE: Final = (
    *("character_rnn", "custom_train_step", "images_from_folder", "object_detection", "own_layers"),
    *("segmentation", "sequence_to_sequence", "timeseries_last_row", "uneven_sizes", "wide_and_deep"),
)
"""Scripts that three workers run too; the last batch of some has fewer rows than that."""


def scripts() -> list[Any]:
    """Return scripts with a number of workers; `make test` runs ten of them."""
    runs = [*((name, 2) for name in EXPECTED), *((name, 3) for name in ON_THREE)]
    return [
        pytest.param(*run, marks=() if run in QUICK else (pytest.mark.long,), id=f"{run[0]}-{run[1]}") for run in runs
    ]


def test_each_script_has_an_expectation() -> None:
    assert sorted(path.stem for path in SCRIPTS.glob("*.py")) == sorted(EXPECTED)


def test_each_script_is_in_one_folder() -> None:
    assert sorted(name for names in FOLDERS.values() for name in names) == sorted(EXPECTED)


@pytest.mark.trainer
@pytest.mark.parametrize(("name", "workers"), scripts())
def test_workers_end_with_the_same_numbers_as_one_process(name: str, workers: int, tmp_path: Path) -> None:
    # given workers in one folder, as pods share a volume
    script = str(SCRIPTS / f"{name}.py")
    first, *others = results([str(RUNNER), script], tmp_path / "several", cluster(workers))
    # then they have the same numbers
    for other in others:
        assert_close(other, first, tolerance=0.0)
    # given one process without TF_CONFIG, where the mathematics is the same
    expected = EXPECTED[name]
    if isinstance(expected, Equal):
        options = ["--default-strategy"] if expected.without_strategy else []
        [alone] = results([str(RUNNER), *options, script], tmp_path / "one", [None])
        # then it has these numbers too
        assert_close(first, alone, tolerance=expected.tolerance)
