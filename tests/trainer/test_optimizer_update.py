"""The update of variables by the optimizers of both Keras."""

import os
import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.trainer


def test_an_optimizer_of_tf_keras_updates_the_variables_of_its_models() -> None:
    """Given a process whose models are those of tf_keras, as `minShardBytes` needs."""
    script = """
        import tensorflow as tf
        import tf_keras
        from tfdist_trainer import step_variables
        variable = tf.Variable([2.0])
        step_variables.apply_gradients(tf_keras.optimizers.SGD(0.5), [tf.constant([1.0])], [variable])
        print(variable.numpy().tolist())
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    environ = os.environ | {"TF_USE_LEGACY_KERAS": "1"}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.stdout.split("\n")[:1] == ["[1.5]"], done.stderr
