"""The API server takes every example as it is written, with strict validation of fields."""

import pytest
from support.api import JOBS, Api
from support.examples import MANIFESTS, job

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("name", MANIFESTS)
def test_the_server_accepts_an_example(api: Api, namespace: str, name: str) -> None:
    manifest = job(name)
    placed = manifest | {"metadata": manifest["metadata"] | {"namespace": namespace}}
    api.do("POST", JOBS.format(ns=namespace), placed, dryRun="All", fieldValidation="Strict")
