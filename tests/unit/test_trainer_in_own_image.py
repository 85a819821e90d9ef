"""A script is warned about what only `tfdist-trainer` does, also where a variable turns it off."""

from typing import Any

import pytest
from support.factories import CHECKPOINT, TRAINING, manifest

from tfdist.validation import parse
from tfdist.validation.warnings import warnings

OWN: dict[str, Any] = {"image": "tensorflow/tensorflow:2.16.1", "training": {"script": "/app/train.py"}}

SCRIPT: dict[str, Any] = {"training": {"script": "/app/train.py"}}


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
    [OWN, {**SCRIPT, "checkpoint": CHECKPOINT}, {**SCRIPT, "env": [{"name": "TFDIST_KERAS_FIT", "value": "off"}]}],
    ids=["nothing is requested", "the image of the installation", "nothing is requested of a fit of Keras"],
)
def test_other_scripts_are_not_warned_about(spec: dict[str, Any]) -> None:
    assert warned(**spec) == []


def left_to_keras(value: str, **spec: Any) -> list[str]:
    return warned(**{**SCRIPT, "env": [{"name": "TFDIST_KERAS_FIT", "value": value}], "checkpoint": CHECKPOINT, **spec})


@pytest.mark.parametrize("value", ["off", "OFF", "alone"])
def test_a_variable_that_leaves_fit_to_keras_names_what_has_no_effect(value: str) -> None:
    (text,) = left_to_keras(value, worker={"replicas": 2})
    assert text.startswith(f"spec.env[0]: with TFDIST_KERAS_FIT={value.lower()} fit neither saves")
    assert "so checkpoint has no effect" in text


@pytest.mark.parametrize(
    ("value", "spec"),
    [
        ("on", {}),
        ("alone", {"worker": {"replicas": 1}}),
        ("off", {"training": TRAINING}),
    ],
)
def test_a_variable_without_that_effect_is_not_warned_about(value: str, spec: dict[str, Any]) -> None:
    assert not any("TFDIST_KERAS_FIT" in each for each in left_to_keras(value, **spec))
