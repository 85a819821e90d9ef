"""`training.script` on pods: an ordinary Keras 3 script from a ConfigMap, on two workers."""

import copy
import re
from collections.abc import Callable, Iterator
from typing import Final

import pytest
from support.api import Json
from support.e2e import Cluster, example
from support.failing_jobs import JobNamespace, own_namespace
from support.nodes import paused, require_own_nodes, send_signal, signal_program
from support.polling import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(420)]

SCRIPT: Final = """
import argparse
import os
import time

import keras
import numpy as np
import tensorflow as tf
from rows import examples

options = argparse.ArgumentParser()
options.add_argument("--epochs", type=int)
options.add_argument("--seconds", type=float, default=0.0)
given = options.parse_args()
strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(1)
x, y = examples()
with strategy.scope():
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile(optimizer="adam", loss="mse")
pause = keras.callbacks.LambdaCallback(on_epoch_end=lambda *_: time.sleep(given.seconds))
validation = (x[:30], y[:30])
losses = model.fit(x, y, epochs=given.epochs, validation_data=validation, verbose=0, callbacks=[pause]).history["loss"]
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


SPREAD: Final[Json] = {
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"tfdist.dev/job": "resumed"}},
        }
    ],
}
"""On two nodes, if there are."""


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[JobNamespace]:
    with own_namespace(cluster, "script") as namespace:
        yield namespace


def test_a_keras_script_trains_on_two_workers_with_equal_losses(namespace: JobNamespace) -> None:
    # when
    namespace.start(CODE, JOB)
    status = namespace.ended("my-script", seconds=240)
    # then
    assert (status["phase"], status["attempt"]) == ("Succeeded", 0), namespace.described("my-script")
    assert (status["progress"]["step"], status["progress"]["totalSteps"]) == (6, 6), "`fit` reports by itself"
    assert (status["evaluation"]["final"]["step"], status["evaluation"]["final"]["examples"]) == (6, 30)
    assert status["evaluation"]["best"]["metrics"] == status["evaluation"]["final"]["metrics"], "of the lowest loss"
    first, second = [losses(log(namespace, pod)) for pod in namespace.cluster.pods("my-script")]
    assert first == second
    assert len(first.split(",")) == 3, "one loss of each epoch"


@pytest.fixture
def jobs(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[tuple[Json, Json]]:
    """An undisturbed job of so many epochs, and the same one with checkpoints."""
    alone, resumed = (copy.deepcopy(JOB) | {"metadata": {"name": name}} for name in ("undisturbed", "resumed"))
    for job in (alone, resumed):
        job["spec"]["training"]["args"] = ["--epochs", str(request.param), "--seconds", "0.5"]
    shared = example("resumed")["spec"]
    resumed["spec"] |= {key: shared[key] for key in ("volumes", "volumeMounts")} | {"template": {"spec": SPREAD}}
    resumed["spec"]["checkpoint"] = shared["checkpoint"] | {"everySteps": 4}
    resumed["spec"]["training"]["export"] = {"which": ["Final", "Best"]}
    resumed["spec"]["runPolicy"] = {"backoffLimit": 20, "cleanPodPolicy": "None"}
    yield alone, resumed
    for job in (alone, resumed):
        cluster.delete_job(job["metadata"]["name"])


@pytest.mark.timeout(600)
@pytest.mark.parametrize("jobs", [40], indirect=True, ids=["40 epochs"])
def test_a_script_whose_process_is_killed_and_whose_pod_is_deleted_ends_with_the_losses_of_one_left_alone(
    cluster: Cluster, jobs: tuple[Json, Json]
) -> None:
    # given
    namespace, (alone, resumed) = JobNamespace(cluster), jobs
    namespace.start(CODE, alone)
    assert namespace.ended("undisturbed", seconds=240)["phase"] == "Succeeded"
    # when a process of the other job is killed, and then a pod deleted
    namespace.start(resumed)
    until_step(namespace, 12)
    signal_program(replica(namespace, 1), "KILL")
    until_step(namespace, 40)
    namespace.delete_pod(replica(namespace, 1)["metadata"]["name"])
    # then
    status = namespace.ended("resumed", seconds=240)
    assert (status["phase"], status["restarts"]["counted"]) == ("Succeeded", 1), namespace.described("resumed")
    expected = {losses(log(namespace, pod)) for pod in namespace.cluster.pods("undisturbed")}
    assert {losses(log(namespace, pod)) for pod in namespace.cluster.pods("resumed")} == expected, namespace.described(
        "resumed"
    )
    assert status["evaluation"]["final"]["checkpoint"] == status["progress"]["lastCheckpoint"]["path"]
    assert status["export"]["final"]["step"] == status["progress"]["step"] == 80
    assert status["export"]["best"]["step"] == status["evaluation"]["best"]["step"]


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("jobs", [200], indirect=True, ids=["200 epochs"])
def test_a_script_that_is_disturbed_ten_times_ends_with_the_losses_of_one_left_alone(
    cluster: Cluster, jobs: tuple[Json, Json]
) -> None:
    require_own_nodes("makes a node stand still, and with it what others run there")
    # given
    namespace, (alone, resumed) = JobNamespace(cluster), jobs
    namespace.start(CODE, alone)
    assert namespace.ended("undisturbed", seconds=600)["phase"] == "Succeeded"
    namespace.start(resumed)
    # when programs and launchers are killed and terminated, and pods deleted
    for number, disturb in enumerate(DISTURBANCES):
        until_step(namespace, 10 * (number + 1))
        disturb(namespace, replica(namespace, number % 2))
    # and a node stands still
    until_step(namespace, 10 * (len(DISTURBANCES) + 1))
    with paused(replica(namespace, 1)["spec"]["nodeName"]):
        until_step(namespace, 10 * (len(DISTURBANCES) + 3), seconds=300)
    # then
    status = namespace.ended("resumed", seconds=600)
    assert status["phase"] == "Succeeded", namespace.described("resumed")
    assert status["progress"]["step"] == 400
    actual, expected = (numbers(namespace, name) for name in ("resumed", "undisturbed"))
    assert len(actual) == 200
    # the sums of an interrupted epoch are added in another order
    assert actual == pytest.approx(expected, rel=1e-5)


def kill_program(_: JobNamespace, pod: Json) -> None:
    signal_program(pod, "KILL")


def terminate_program(_: JobNamespace, pod: Json) -> None:
    signal_program(pod, "TERM")


def kill_launcher(_: JobNamespace, pod: Json) -> None:
    send_signal(pod, "KILL")


def delete_pod(namespace: JobNamespace, pod: Json) -> None:
    namespace.delete_pod(pod["metadata"]["name"])


DISTURBANCES: Final[tuple[Callable[[JobNamespace, Json], None], ...]] = (
    kill_program,
    kill_program,
    terminate_program,
    delete_pod,
    kill_launcher,
    terminate_program,
    delete_pod,
    kill_launcher,
    kill_program,
)
"""Of the workers in turn; a node that stands still is the tenth."""


def numbers(namespace: JobNamespace, job: str) -> list[float]:
    """Return the losses that a worker that has succeeded has printed, when the kubelet has reported its end."""

    def succeeded() -> list[Json]:
        return [pod for pod in namespace.cluster.pods(job) if pod["status"]["phase"] == "Succeeded"]

    pods = wait_for(f"a pod of {job} that has succeeded", succeeded)
    return [float(number) for number in losses(log(namespace, pods[0])).strip("[]").split(",")]


def replica(namespace: JobNamespace, index: int) -> Json:
    """Return the pod of a worker when it runs."""

    def running() -> Json | None:
        pods = namespace.cluster.pods("resumed")
        of_worker = (pod for pod in pods if pod["metadata"]["labels"]["tfdist.dev/index"] == str(index))
        return next((pod for pod in of_worker if _runs(pod)), None)

    pod = wait_for(f"a pod of worker-{index} that runs", running)
    assert pod is not None
    return pod


def _runs(pod: Json) -> bool:
    states = [container["state"] for container in pod["status"].get("containerStatuses", ())]
    return "deletionTimestamp" not in pod["metadata"] and bool(states) and all("running" in state for state in states)


def until_step(namespace: JobNamespace, step: int, seconds: float = 120) -> None:
    def progress() -> int:
        return int(namespace.cluster.job("resumed").get("status", {}).get("progress", {}).get("step") or 0)

    wait_for(f"step {step}", lambda: progress() >= step, seconds=seconds)


def log(namespace: JobNamespace, pod: Json) -> str:
    return namespace.cluster.kubectl.run("logs", f"--namespace={namespace.cluster.namespace}", pod["metadata"]["name"])


def losses(text: str) -> str:
    """Return the losses that a worker of the gang has printed once."""
    (line,) = re.findall(r"round \d+ workers 2 losses (.*)$", text, re.MULTILINE)
    return str(line)
