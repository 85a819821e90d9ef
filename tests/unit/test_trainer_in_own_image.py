"""A script in an image of the user's is warned about what only `tfdist-trainer` in that image does."""

import pathlib
import re
from typing import Any

import pytest
from support.factories import CHECKPOINT, manifest

from tfdist.validation import parse
from tfdist.validation.warnings import KERAS, warnings

HOOK = pathlib.Path(__file__).resolve().parents[2] / "trainer_image" / "tfdist_trainer" / "upstream" / "hook.py"
OWN: dict[str, Any] = {"image": "tensorflow/tensorflow:2.16.1", "training": {"script": "/app/train.py"}}


def warned(**spec: Any) -> list[str]:
    return [str(each) for each in warnings(parse(manifest(**spec)))]


def test_a_checkpoint_and_an_export_in_an_own_image_name_what_it_needs() -> None:
    exported = {**OWN, "training": {"script": "/app/train.py", "export": {}}}
    (text,) = warned(**exported, checkpoint=CHECKPOINT)
    assert text.startswith("spec.image: checkpoint and training.export of a script needs tfdist-trainer and keras>=3")


def test_an_image_of_one_role_has_the_path_of_that_role() -> None:
    spec = {"worker": {"replicas": 2, "image": "own:1"}, "training": {"script": "/app/train.py"}}
    (text,) = warned(**spec, checkpoint=CHECKPOINT)
    assert text.startswith("spec.worker.image: checkpoint")


@pytest.mark.parametrize(
    "spec",
    [OWN, {"training": {"script": "/app/train.py"}, "checkpoint": CHECKPOINT}],
    ids=["nothing is requested", "the image of the installation"],
)
def test_other_scripts_are_not_warned_about(spec: dict[str, Any]) -> None:
    assert warned(**spec) == []


def test_the_versions_are_those_of_the_trainer() -> None:
    assert re.findall(r'^KERAS: Final = "(.+)"$', HOOK.read_text(), re.MULTILINE) == [KERAS]
