"""The tokenizer of the example `transformer`, and the optimizers of both large examples."""

import importlib
from typing import Any

import pytest
import tensorflow as tf
from support.examples import FOLDER

pytestmark = pytest.mark.trainer


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function from the folder and the name of a module of an example to the module."""

    def imported(folder: str, name: str) -> Any:
        monkeypatch.syspath_prepend(str(FOLDER / folder))
        return importlib.import_module(name)

    return imported


def test_frequent_words_become_one_piece_and_others_several(example: Any) -> None:
    tokenizer = example("transformer", "tokenizer")
    vocabulary, pieces = tokenizer.train({"low": 9, "lower": 2, "show": 1}, 16)
    assert vocabulary[:2] == ["", "[UNK]"]
    assert [vocabulary[number] for number in pieces["low"]] == ["low_"]
    assert "".join(vocabulary[number] for number in pieces["lower"]) == "lower_"
    assert len(pieces["show"]) > 1


def test_a_word_that_was_never_seen_is_spelled_and_texts_are_padded(example: Any) -> None:
    tokenizer = example("transformer", "tokenizer")
    vocabulary, pieces = tokenizer.train({"low": 9, "lower": 2}, 16)
    numbers = tokenizer.Tokenizer(vocabulary, pieces, 8)(tf.constant(["Low slow.", ""])).numpy()
    first = [vocabulary[number] for number in numbers[0]]
    assert first == ["low_", "[UNK]", "l", "o", "w", "_", "[UNK]", "_"]
    assert numbers[1].tolist() == [0] * 8


def test_the_transformer_ignores_padding_and_decays_matrices_only(example: Any) -> None:
    module = example("transformer", "transformer")
    config = {"data": {"train": "none.csv"}, "maxSequenceLength": 6, "optimizer": {"name": "adamw", "weightDecay": 0.1}}
    program = module.Transformer(module.Config.model_validate(config))
    program.vocabulary = [str(number) for number in range(20)]
    model, optimizer = program.model(), program.optimizer(1.0)
    optimizer.build(model.trainable_variables)
    decayed = {variable.name for variable in model.trainable_variables if optimizer._use_weight_decay(variable)}
    assert decayed == {"kernel", "embeddings"}
    # given a padded text, when padding is another token that is masked by the same zeros
    alone, padded = model(tf.constant([[3, 4, 0, 0, 0, 0]])), model(tf.constant([[3, 4, 5, 0, 0, 0]]))
    shorter = module.Transformer(module.Config.model_validate(config | {"maxSequenceLength": 2}))
    shorter.vocabulary = program.vocabulary
    short = shorter.model()
    short.set_weights(model.get_weights())
    tf.debugging.assert_near(short(tf.constant([[3, 4]])), alone, atol=1e-5)
    assert float(tf.reduce_max(tf.abs(alone - padded))) > 1e-4


def test_the_full_size_of_resnet50_has_its_parameters_and_moving_averages(example: Any) -> None:
    module = example("resnet50", "resnet50")
    config = {"data": {"train": "none.tfrecord"}, "fullSize": True, "classes": 1000, "optimizer": {"name": "sgd"}}
    program = module.ResNet50(module.Config.model_validate(config))
    assert program.model().count_params() == 25_610_152  # without biases of convolutions; 25.6 million in the paper
    assert program.optimizer(1.0).use_ema
