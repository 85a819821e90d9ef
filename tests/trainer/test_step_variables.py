"""Variables at a checkpoint: statistics of all replicas, and values that must be finite."""

import keras
import numpy as np
import pytest
from trainer.two_replicas import on_replicas

from tfdist_trainer.programs import choose
from tfdist_trainer.step_variables import BatchNormSync, FiniteCheck
from tfdist_trainer.strategies.replica_group import ReplicaGroup

pytestmark = pytest.mark.trainer

CONFIG = {"data": {}, "imageShape": [4, 4, 1], "classes": 3, "model": "mlp", "batchNormalization": True}


def test_statistics_of_all_examples_are_those_of_numpy_also_if_they_are_large(gang: ReplicaGroup) -> None:
    layer = keras.layers.BatchNormalization(momentum=0.0, center=False, scale=False)
    with gang.strategy.scope():
        model = keras.Sequential([keras.layers.Input([2]), layer])
    random = np.random.default_rng(0)
    parts = random.normal(3000, 1, (2, 64, 2)).astype(np.float32) + np.array([[[0]], [[1]]], np.float32)
    for place, variable in ((0, layer.moving_mean), (1, layer.moving_variance)):
        for part, copy in zip(parts, variable.value.values, strict=True):
            copy.assign((part.mean(axis=0), part.var(axis=0))[place])
    BatchNormSync(gang, model).run(1.0)
    exact = parts.astype(np.float64).reshape(-1, 2)
    np.testing.assert_allclose(on_replicas(gang, layer.moving_mean.value)[1], exact.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(on_replicas(gang, layer.moving_variance.value)[1], exact.var(axis=0), rtol=1e-3)


def test_statistics_of_frozen_layers_stay_what_they_are_to_the_last_digit(gang: ReplicaGroup) -> None:
    layer = keras.layers.BatchNormalization(trainable=False)
    with gang.strategy.scope():
        model = keras.Sequential([keras.layers.Input([2]), layer, keras.layers.BatchNormalization()])
    for variable in layer.variables:
        for copy in variable.value.values:
            copy.assign([0.1, 1e30])
    BatchNormSync(gang, model).run(0.3)  # 0.1 times 0.3, divided by 0.3, is not 0.1
    for variable in layer.variables:
        np.testing.assert_array_equal(on_replicas(gang, variable.value), np.array([[0.1, 1e30]] * 2, np.float32))


def test_one_number_that_is_not_finite_is_found_in_any_variable(gang: ReplicaGroup) -> None:
    program = choose("image_classification", CONFIG).create()
    with gang.strategy.scope():
        model = program.model()
    check = FiniteCheck(gang, model.variables)
    assert check.run()
    for variable in (model.variables[0], model.non_trainable_variables[-1]):
        whole = variable.numpy()
        spoilt = whole.copy()
        spoilt.reshape(-1)[-1] = np.nan
        variable.assign(spoilt)
        assert not check.run()
        variable.assign(whole)
        assert check.run()
