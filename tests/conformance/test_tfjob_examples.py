"""The examples of the training operator: each converts, and gives a valid job with the same pods."""

import pytest
from support import effective
from support.tfjob_examples import COUNT, examples

from tfdist.convert import convert
from tfdist.convert.replicas import ROLES
from tfdist.validation import parse


def test_all_examples_are_found() -> None:
    assert len(examples()) == COUNT, sorted(examples())


@pytest.mark.parametrize("number", range(COUNT))
def test_an_example_becomes_a_valid_job_with_the_same_pods(number: int) -> None:
    name = sorted(examples())[number]
    given = examples()[name]
    made = convert(given).manifest
    assert parse(made).metadata.name == given["metadata"]["name"], name
    for key, replicas in given["spec"]["tfReplicaSpecs"].items():
        role = ROLES[key.lower()]
        assert effective.of_role(made, role) == effective.of_tfjob(replicas["template"]), f"{name}: {key}"
