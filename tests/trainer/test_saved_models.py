"""A model from a file, as `image_classification` trains, evaluates and exports it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfdist_trainer.errors import ConfigurationError
from tfdist_trainer.programs import choose

pytestmark = pytest.mark.trainer

IMAGES = np.random.default_rng(0).integers(0, 256, (4, 4, 4, 1)).astype(np.uint8)
LABELS = np.array([0, 1, 2, 0])


def saved(path: Path, *last: Any) -> Any:
    """Save a classifier with these last layers as a program of its file, and return it with that program."""
    layers = keras.layers
    keras.utils.set_random_seed(1)
    first = [layers.Input([4, 4, 1], dtype="uint8"), layers.Rescaling(1 / 255), layers.Flatten()]
    model = keras.Sequential([*first, *last])
    model.save(path)
    config = {"data": {}, "imageShape": [4, 4, 1], "classes": 3, "model": str(path)}
    return model, choose("image_classification", config).create()


def functional_softmax(units: int) -> Any:
    inputs = keras.layers.Input([16])
    return keras.Model(inputs, keras.ops.softmax(keras.layers.Dense(units)(inputs)))


SOFTMAX: dict[str, Callable[[], list[Any]]] = {
    "dense": lambda: [keras.layers.Dense(3, activation="softmax")],
    "activation": lambda: [keras.layers.Dense(3), keras.layers.Activation("softmax")],
    "layer": lambda: [keras.layers.Dense(3), keras.layers.Softmax()],
    "nested": lambda: [keras.Sequential([keras.layers.Input([16]), keras.layers.Dense(3, activation="softmax")])],
}


@pytest.mark.parametrize("kind", SOFTMAX)
def test_a_model_that_ends_in_softmax_is_trained_by_its_probabilities(kind: str, tmp_path: Path) -> None:
    # given
    model, program = saved(tmp_path / "saved.keras", *SOFTMAX[kind]())
    probabilities = model(IMAGES).numpy()
    expected = keras.losses.sparse_categorical_crossentropy(LABELS, probabilities, from_logits=False).numpy()
    # when
    trained = program.model()
    loss = program.loss(tf.constant(LABELS), trained(IMAGES)).numpy()
    # then
    np.testing.assert_allclose(loss, expected, rtol=1e-5)
    np.testing.assert_allclose(tf.nn.softmax(trained(IMAGES)), probabilities, rtol=1e-5)
    served = program.serving_model(trained)
    np.testing.assert_allclose(served(IMAGES), probabilities, rtol=1e-5)
    served.save(tmp_path / "exported.keras")
    again = keras.models.load_model(tmp_path / "exported.keras")
    np.testing.assert_allclose(again(IMAGES), probabilities, rtol=1e-5)


@pytest.mark.parametrize("activation", [None, "linear", "log_softmax"])
def test_a_model_that_gives_logits_stays_as_it_is(activation: str | None, tmp_path: Path) -> None:
    model, program = saved(tmp_path / "saved.keras", keras.layers.Dense(3, activation=activation))
    trained = program.model()
    np.testing.assert_array_equal(trained(IMAGES), model(IMAGES))
    assert program.serving_model(trained) is trained


@pytest.mark.parametrize(
    ("last", "message"),
    [
        (
            lambda: [keras.layers.Dense(3, activation="sigmoid")],
            "ends in a sigmoid, .* save a model that ends in softmax",
        ),
        (lambda: [functional_softmax(3)], "whose last layer is a softmax, .* save it without that layer"),
    ],
)
def test_other_probabilities_end_the_job(last: Callable[[], list[Any]], message: str, tmp_path: Path) -> None:
    _, program = saved(tmp_path / "saved.keras", *last())
    with pytest.raises(ConfigurationError, match=rf"^training\.config\.model: .*{message}"):
        program.model()


class Doubled(keras.layers.Layer):  # type: ignore[misc]  # Keras ships no types
    """Not registered, so that it is unknown when a file is loaded."""

    def call(self, inputs: Any) -> Any:
        return 2 * inputs


def test_a_layer_that_is_not_one_of_keras_is_named_with_the_remedy(tmp_path: Path) -> None:
    _, program = saved(tmp_path / "saved.keras", Doubled(), keras.layers.Dense(3))
    with pytest.raises(ConfigurationError) as caught:
        program.model()
    message = str(caught.value)
    assert message.startswith(f"training.config.model: cannot load {tmp_path}/saved.keras: its class 'Doubled' is not")
    assert message.endswith("training.program: package.module:Class")


def test_a_file_that_is_not_there_has_the_reason_and_the_remedy(tmp_path: Path) -> None:
    config = {"data": {}, "imageShape": [4, 4, 1], "classes": 3, "model": f"{tmp_path}/absent.keras"}
    with pytest.raises(ConfigurationError, match=r"cannot load .*absent.keras: No such file or directory; check"):
        choose("image_classification", config).create().model()


@pytest.mark.parametrize(("shape", "fits"), [((None, None, 1), True), ((4, None, 1), True), ((None, None, 3), False)])
def test_a_model_of_images_of_any_size_takes_those_of_the_configuration(
    shape: tuple[int | None, ...], fits: bool, tmp_path: Path
) -> None:
    layers, path = keras.layers, tmp_path / "saved.keras"
    keras.Sequential([layers.Input(shape), layers.GlobalAveragePooling2D(), layers.Dense(3)]).save(path)
    program = choose(
        "image_classification", {"data": {}, "imageShape": [4, 4, 1], "classes": 3, "model": str(path)}
    ).create()
    if fits:
        assert program.model()(IMAGES).shape == (4, 3)
    else:
        with pytest.raises(ConfigurationError, match=r"is from \(None, None, None, 3\) to \(None, 3\), expected from"):
            program.model()
