"""A real control plane (API server, etcd, controller manager, scheduler, fake nodes) and a controller for each test."""

import pathlib
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from support import controller as controllers
from support.api import Api
from support.command_user import CommandUser
from support.conformance import ConformanceCluster, ConvertedJob, conformance_cluster
from support.control_plane import control_plane
from support.replica_node import replica_node
from support.schedulers import coscheduling as coscheduling_scheduler
from support.schedulers import kueue as kueue_scheduler
from support.schedulers import volcano as volcano_scheduler
from support.streaming_kubelet import StreamingNode

_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


@pytest.fixture(scope="session")
def api() -> Iterator[Api]:
    with control_plane(fake_nodes=2) as kubeconfig:
        server = Api(kubeconfig)
        controllers.install(server)
        yield server


@contextmanager
def _namespace(api: Api) -> Iterator[str]:
    name = f"test-{uuid.uuid4().hex[:8]}"
    api.do("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    yield name
    api.do("DELETE", f"/api/v1/namespaces/{name}")


@pytest.fixture
def namespace(api: Api) -> Iterator[str]:
    with _namespace(api) as name:
        yield name


@pytest.fixture
def user(api: Api, namespace: str, tmp_path: pathlib.Path) -> CommandUser:
    """A user of the command with the role `edit` in the namespace."""
    return CommandUser(api, namespace, tmp_path)


@pytest.fixture(scope="module")
def node(api: Api, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StreamingNode]:
    """A node whose pods a user can open connections to."""
    with replica_node(api, tmp_path_factory.mktemp("kubelet")) as node:
        yield node


@pytest.fixture
def urgent(api: Api) -> Iterator[str]:
    """A PriorityClass above the default."""
    name = f"urgent-{uuid.uuid4().hex[:8]}"
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 1000}
    api.do("POST", _CLASSES, kind | {"metadata": {"name": name}})
    yield name
    api.do("DELETE", f"{_CLASSES}/{name}")


@pytest.fixture
def controller(api: Api, tmp_path: pathlib.Path) -> Iterator[controllers.Controller]:
    with controllers.controller(api, tmp_path) as running:
        yield running


@pytest.fixture(scope="module")
def cluster(
    api: Api, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ConformanceCluster]:
    """The situations of a module's tests, in a namespace with a controller of its own."""
    folder = tmp_path_factory.mktemp("controller")
    with _namespace(api) as name, conformance_cluster(api, request.module, name, folder) as cluster:
        yield cluster


@pytest.fixture
def jobs(cluster: ConformanceCluster, request: pytest.FixtureRequest) -> list[ConvertedJob]:
    """The jobs of the test's situations."""
    return cluster.situations[request.function.__name__]


@pytest.fixture
def job(jobs: list[ConvertedJob]) -> ConvertedJob:
    """The job of the test's one situation."""
    (single_job,) = jobs
    return single_job


# The schedulers of other projects take minutes to build: only tests that are marked long use them.


@pytest.fixture(scope="module")
def kueue(api: Api, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Kueue, for the tests of a module."""
    with kueue_scheduler.kueue(api, tmp_path_factory.mktemp("kueue")):
        yield


@pytest.fixture(scope="module")
def volcano(api: Api, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Volcano, for the tests of a module."""
    with volcano_scheduler.volcano(api, tmp_path_factory.mktemp("volcano")):
        yield


@pytest.fixture(scope="module")
def coscheduling(api: Api, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The scheduler with the plugin Coscheduling, for the tests of a module."""
    with coscheduling_scheduler.coscheduling(api, tmp_path_factory.mktemp("coscheduling")):
        yield
