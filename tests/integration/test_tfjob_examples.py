"""The examples of the training operator, converted, are accepted by a real API server as kubectl would send them."""

import pytest
from support.api import JOBS, Api
from support.tfjob_examples import COUNT, examples

from tfdist.convert import convert

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("number", range(COUNT))
def test_a_converted_example_is_accepted(api: Api, namespace: str, number: int) -> None:
    name = sorted(examples())[number]
    made = convert(examples()[name]).manifest
    made["metadata"]["namespace"] = namespace
    answer = api.send("POST", JOBS.format(ns=namespace), made, dryRun="All", fieldValidation="Strict")
    assert answer.status_code == 201, f"{name}: {answer.text}"
