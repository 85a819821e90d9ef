"""`training.script` on pods: an ordinary Keras 3 script from a ConfigMap, on two workers."""

import re
from collections.abc import Iterator
from typing import Final

import pytest
from support.api import Json
from support.e2e import Cluster
from support.failing import Scene, own_namespace

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(420)]

SCRIPT: Final = """
import argparse
import os

import keras
import numpy as np
import tensorflow as tf
from rows import examples

options = argparse.ArgumentParser()
options.add_argument("--epochs", type=int)
epochs = options.parse_args().epochs
strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(1)
x, y = examples()
with strategy.scope():
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile(optimizer="adam", loss="mse")
losses = model.fit(x, y, epochs=epochs, verbose=0).history["loss"]
print("round", os.environ["TFDIST_ROUND"], "workers", strategy.num_replicas_in_sync, "losses", losses)
"""
ROWS: Final = """
import numpy as np


def examples():
    x = np.linspace(-1, 1, 64, dtype="float32")[:, None]
    return x, 2 * x
"""
CODE: Final[Json] = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "my-code"},
    "data": {"train.py": SCRIPT, "rows.py": ROWS},
}
JOB: Final[Json] = {
    "apiVersion": "tfdist.dev/v1",
    "kind": "TFDistJob",
    "metadata": {"name": "my-script"},
    "spec": {
        "worker": {"replicas": 2},
        "training": {
            "script": "train.py",
            "args": ["--epochs", "3"],
            "source": {"configMap": {"name": "my-code"}},
        },
        "runPolicy": {"cleanPodPolicy": "None"},
        "resources": {"requests": {"cpu": "50m", "memory": "300Mi"}},
    },
}


@pytest.fixture
def scene(cluster: Cluster) -> Iterator[Scene]:
    with own_namespace(cluster, "script") as scene:
        yield scene


def test_a_keras_script_trains_on_two_workers_with_equal_losses(scene: Scene) -> None:
    # when
    scene.start(CODE, JOB)
    status = scene.ended("my-script", seconds=240)
    # then
    assert (status["phase"], status["attempt"]) == ("Succeeded", 0), scene.described("my-script")
    assert (status["progress"]["step"], status["progress"]["totalSteps"]) == (6, 6), "`fit` reports by itself"
    first, second = [losses(log(scene, pod)) for pod in scene.cluster.pods("my-script")]
    assert first == second
    assert len(first.split(",")) == 3, "one loss of each epoch"


def log(scene: Scene, pod: Json) -> str:
    return scene.cluster.kubectl.run("logs", f"--namespace={scene.cluster.namespace}", pod["metadata"]["name"])


def losses(text: str) -> str:
    """Return the losses that a worker of the gang has printed once, under the launcher."""
    (found,) = re.findall(r"round 0 workers 2 losses (.*)$", text, re.MULTILINE)
    return str(found)
