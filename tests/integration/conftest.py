"""A real control plane (API server, etcd, controller manager, scheduler, fake nodes) and a controller for each test."""

import pathlib
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from support import controller as controllers
from support.api import Api
from support.conformance import Moved, Stage
from support.conformance import stage as run_stage
from support.control_plane import control_plane


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
def controller(api: Api, tmp_path: pathlib.Path) -> Iterator[controllers.Controller]:
    with controllers.controller(api, tmp_path) as running:
        yield running


@pytest.fixture(scope="module")
def stage(api: Api, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """The situations of a module's tests, in a namespace with a controller of its own."""
    folder = tmp_path_factory.mktemp("controller")
    with _namespace(api) as name, run_stage(api, request.module, name, folder) as made:
        yield made


@pytest.fixture
def jobs(stage: Stage, request: pytest.FixtureRequest) -> list[Moved]:
    """The jobs of the test's situations."""
    return stage.situations[request.function.__name__]


@pytest.fixture
def job(jobs: list[Moved]) -> Moved:
    """The job of the test's one situation."""
    (found,) = jobs
    return found
