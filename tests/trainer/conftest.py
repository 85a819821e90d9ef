# ruff: noqa: PLC0415  TensorFlow takes seconds to import, and most of these tests do without
"""Starts replicas as the controller would, but as processes on this machine, and makes small data sets."""

import contextlib
import json
import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest
from support import object_servers
from support.faulty_server import FaultyServer, faulty_server
from support.local_runs import LocalRuns
from support.object_servers import ObjectServer
from support.ports import free_ports
from trainer.replicas import Launch, Replicas
from trainer.resumed_scripts import Script

if TYPE_CHECKING:
    from tfdist_trainer.strategies.replica_group import ReplicaGroup

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

SHAPE = (5, 5, 1)
CLASSES = 4


@contextlib.contextmanager
def launching(folders: pytest.TempPathFactory) -> Iterator[Launch]:
    """Give a function that starts the replicas of some roles and returns their processes, numbered in that order."""
    started: list[Replicas] = []

    def start(
        roles: Mapping[str, int],
        *,
        config: dict[str, Any],
        job: dict[str, Any] | None = None,
        cold: bool = False,
        absent: Collection[int] = (),
        environs: Mapping[int, dict[str, str]] | None = None,
    ) -> Replicas:
        members = [(role, index) for role, count in roles.items() for index in range(count)]
        size = len(members)
        replicas = Replicas(folders.mktemp("gang"), report_ports=free_ports(size), cold=cold)
        started.append(replicas)
        replicas.addresses = [f"127.0.0.1:{port}" for port in free_ports(size)]
        cluster: dict[str, list[str]] = {role: [] for role in roles}
        for (role, _), address in zip(members, replicas.addresses, strict=True):
            cluster[role].append(address)
        for number, place in enumerate(members):
            environ = replica_environ(replicas, number, cluster, place, config, job or {})
            replicas.environs.append(environ | (environs or {}).get(number, {}))
            if number not in absent:
                replicas.start(number)
        return replicas

    try:
        yield start
    finally:
        for replicas in started:
            replicas.stop()


@pytest.fixture
def launch_roles(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launch]:
    """See `launching`."""
    with launching(tmp_path_factory) as start:
        yield start


@pytest.fixture
def launch(launch_roles: Launch) -> Launch:
    """A function that starts a gang of `size` equal replicas and returns its processes."""

    def start(size: int = 1, **options: Any) -> Replicas:
        return launch_roles({"worker": size}, **options)

    return start


def replica_environ(
    replicas: Replicas,
    number: int,
    cluster: Mapping[str, list[str]],
    place: tuple[str, int],
    config: dict[str, Any],
    job: dict[str, Any],
) -> dict[str, str]:
    """Return the environment of member `number`, which is the `place` (role, index) of `cluster`."""
    role, index = place
    evaluates = job.get("task") == "Evaluate"
    description: dict[str, Any] = {
        "name": "test",
        "namespace": "default",
        "uid": "uid-1",
        "strategy": "MultiWorkerMirrored",
        "role": "evaluation" if evaluates else role,
        "index": index,
        "replicas": {"evaluation" if evaluates else name: len(addresses) for name, addresses in cluster.items()},
        "runtime": {"intraOpThreads": 1, "interOpThreads": 1},
        "training": {"program": "image_classification", "config": config},
    }
    environ = {key: value for key, value in os.environ.items() if key != "TF_CONFIG"} | {
        "TFDIST_JOB": json.dumps(description | job),
        "TFDIST_REPORT_PORT": str(replicas.report_ports[number]),
        "TFDIST_TERMINATION_LOG": str(replicas.folder / f"termination-{number}"),
        # Servers know each other's files by addresses, which are used again.
        "TMPDIR": str(replicas.folder),
    }
    if sum(map(len, cluster.values())) > 1:
        environ["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": {"type": role, "index": index}})
    return environ


def examples(count: int, *, seed: int) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Return images whose brightest row is their class, with noise, so that there is something to learn."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, CLASSES, count)
    images = random.integers(0, 160, (count, *SHAPE))
    images[np.arange(count), labels] += 90
    return images.astype(np.uint8), labels.astype(np.int64)


@pytest.fixture(scope="session", autouse=True)
def two_devices() -> None:
    """Give TensorFlow in this process two logical devices, before any test, whatever their order, makes it start."""
    import tensorflow as tf

    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)


@pytest.fixture(scope="session")
def gang(two_devices: None) -> "ReplicaGroup":  # noqa: ARG001  must come before TensorFlow starts
    """Two replicas; one gang in a process: each strategy numbers its collectives from the same start."""
    import tensorflow as tf

    return _group(tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]))


@pytest.fixture(scope="session")
def one(two_devices: None) -> "ReplicaGroup":  # noqa: ARG001  see there
    """One replica."""
    import tensorflow as tf

    return _group(tf.distribute.get_strategy())


def _group(strategy: Any) -> "ReplicaGroup":
    from tfdist.contract import ReplicaJob
    from tfdist_trainer.environment import GangMember
    from tfdist_trainer.strategies.replica_group import ReplicaGroup

    job = ReplicaJob(
        name="t", namespace="d", uid="u", strategy="Mirrored", role="worker", index=0, replicas={"worker": 1}
    )
    return ReplicaGroup(GangMember(job=job, rank=0, size=1, addresses=()), strategy)


@pytest.fixture(scope="session")
def data(two_devices: None, tmp_path_factory: pytest.TempPathFactory) -> Path:  # noqa: ARG001  see there
    """Files of 203 examples to train on and 101 to evaluate on: primes, or nearly, that divide by nothing.

    The evaluation files hold only class 0, the other classes, and nothing: by file, one worker of three has no
    example and a class is on one worker alone.
    """
    from tfdist_trainer.data import npz, tfrecord

    folder = tmp_path_factory.mktemp("data")
    images, labels = examples(203, seed=1)
    for shard in range(3):
        arrays: dict[str, npt.NDArray[Any]] = {"image": images[shard::3], "label": labels[shard::3]}
        tfrecord.write(str(folder / f"train-{shard}.tfrecord"), arrays)
    images, labels = examples(101, seed=2)
    for shard, chosen in enumerate([labels == 0, labels > 0, labels < 0]):
        arrays = {"image": images[chosen], "label": labels[chosen]}
        tfrecord.write(str(folder / f"eval-{shard}.tfrecord"), arrays)
        npz.save(str(folder / f"eval-{shard}.npz"), **arrays)
    return folder


@pytest.fixture(scope="session")
def config(data: Path) -> dict[str, Any]:
    """A configuration of `image_classification` for `data`."""
    return {
        "data": {"train": f"{data}/train-*.tfrecord", "eval": f"{data}/eval-*.tfrecord"},
        "imageShape": list(SHAPE),
        "classes": CLASSES,
        "model": "mlp",
        "batchSizePerReplica": 8,
        "learningRate": 0.01,
    }


@pytest.fixture
def start_run(tmp_path: Path) -> Iterator[LocalRuns]:
    """Starts local runs; those that still run after the test are killed."""
    runs = LocalRuns(tmp_path)
    yield runs
    runs.kill()


@pytest.fixture(scope="session", params=["s3", "gs"])
def object_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectServer]:
    """A server with the protocol of Amazon S3, and one with that of Google Cloud Storage."""
    with object_servers.object_server(request.param, tmp_path_factory.mktemp(request.param)) as server:
        yield server


@pytest.fixture
def proxy(object_server: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyServer]:
    """A proxy to the server, which the environment of this process names."""
    with object_server.writable() as url, faulty_server(url, keep_host=object_server.scheme == "s3") as made:
        for name, value in object_server.writable_environment(made.url).items():
            monkeypatch.setenv(name, value)
        yield made


@pytest.fixture
def store(object_server: ObjectServer, proxy: FaultyServer, tmp_path: Path) -> str:  # noqa: ARG001  environment
    """The URL of a folder of the test in the server, behind the proxy."""
    return object_server.address(tmp_path.name)


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """What a script on one worker writes that is left alone (`resumed_scripts`)."""
    [result] = Script(tmp_path_factory.mktemp("undisturbed") / "run").until_done()
    return result  # type: ignore[no-any-return]


@pytest.fixture
def url(
    proxy: FaultyServer,  # noqa: ARG001  it sets the environment
    object_server: ObjectServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> str:
    """A checkpoint directory of the test; heartbeats stand still, because their threads would outlive the server."""
    monkeypatch.setattr("tfdist_trainer.writer_heartbeat.PERIOD_SECONDS", 1e6)
    return object_server.address(f"{tmp_path.name}/checkpoints")
