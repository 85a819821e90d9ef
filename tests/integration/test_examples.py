"""The API server takes every example as it is written, with strict validation, and the demonstration finds its job."""

import pytest
from support.api import JOBS, Api
from support.examples import FOLDER, MANIFESTS, job, to_apply

from tfdist_cluster.paths import State
from tfdist_demo import follow
from tfdist_demo.kubectl import Kubectl

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("name", MANIFESTS)
def test_the_server_accepts_an_example(api: Api, namespace: str, name: str) -> None:
    manifest = job(name)
    placed = manifest | {"metadata": manifest["metadata"] | {"namespace": namespace}}
    api.do("POST", JOBS.format(ns=namespace), placed, dryRun="All", fieldValidation="Strict")


@pytest.mark.usefixtures("api")
@pytest.mark.parametrize("name", MANIFESTS)
def test_the_demonstration_finds_the_job_of_an_example(name: str) -> None:
    state = State.from_environment()
    kubectl = Kubectl(state.bin / "kubectl", str(state.control_plane / "kubeconfig"))
    path = FOLDER / to_apply(name)[1]
    assert follow.read(kubectl, path).job == job(name)["metadata"]["name"]
