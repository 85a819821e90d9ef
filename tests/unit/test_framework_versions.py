"""The tested versions of Keras and TensorFlow are the same in the trainer, its metadata, the locks and the docs."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from tfdist.validation.warnings import KERAS as WARNED
from tfdist_trainer.upstream.versions import KERAS, PAIRS, RANGES, REMEDY, TENSORFLOW, Pair

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "trainer_image" / "pyproject.toml").read_text())["project"]
DOCS = (ROOT / "docs" / "keras.md").read_text()


def test_the_metadata_of_the_trainer_has_the_ranges() -> None:
    extras = PROJECT["optional-dependencies"]
    assert f"keras{KERAS}" in PROJECT["dependencies"]
    assert f"tensorflow-cpu{TENSORFLOW}" in extras["cpu"]
    assert f"tensorflow[and-cuda]{TENSORFLOW}" in extras["gpu"]
    # Another minor of tf-keras would install another TensorFlow.
    assert all(f"tf-keras{TENSORFLOW}" in extras[name] for name in ("cpu", "gpu"))


def test_the_warning_about_an_image_has_the_range() -> None:
    assert WARNED == KERAS


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{pair.tensorflow}-{pair.keras}")
def test_each_pair_is_in_the_ranges_and_in_its_lock(pair: Pair) -> None:
    assert pair.keras in SpecifierSet(RANGES["keras"])
    assert pair.tensorflow in SpecifierSet(RANGES["tensorflow"])
    if pair.lock:
        lock = (ROOT / "requirements" / pair.lock).read_text()
        locked = dict(re.findall(r"^(keras|tensorflow-cpu)==(\S+) ", lock, re.MULTILINE))
        assert locked == {"keras": pair.keras, "tensorflow-cpu": pair.tensorflow}


def test_the_ends_of_the_ranges_are_the_oldest_and_the_newest_pair() -> None:
    # Each minor of TensorFlow between them is tested, so a range never has one that was not.
    assert RANGES["keras"].startswith(f">={PAIRS[0].keras},")
    minors = [int(pair.tensorflow.split(".")[1]) for pair in PAIRS]
    assert sorted(set(minors)) == list(range(minors[0], minors[-1] + 1))
    assert f"2.{minors[-1] + 1}.0" not in SpecifierSet(TENSORFLOW)
    newest = int(PAIRS[-1].keras.split(".")[1])
    assert f"3.{newest + 1}.0" not in SpecifierSet(KERAS)


def test_the_image_for_gpus_has_the_newest_pair() -> None:
    lock = (ROOT / "requirements" / "trainer-gpu.txt").read_text()
    locked = dict(re.findall(r"^(keras|tensorflow)==(\S+) ", lock, re.MULTILINE))
    assert locked == {"keras": PAIRS[-1].keras, "tensorflow": PAIRS[-1].tensorflow}


def test_the_docs_have_a_row_for_each_pair_and_the_ranges() -> None:
    rows = re.findall(r"^\| (2\.\d+\.\d+) \| (3\.\d+\.\d+) \|.*\| (.*) \|$", DOCS, re.MULTILINE)
    assert rows == [(pair.tensorflow, pair.keras, pair.differs) for pair in PAIRS]
    assert REMEDY.replace(" and ", "` and `") in DOCS
