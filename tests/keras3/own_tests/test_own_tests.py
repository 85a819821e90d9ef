"""Keras' own tests of `fit`, `evaluate`, `predict` and their like, from the installed package, by two workers each."""

import ast
import importlib.util
from pathlib import Path
from typing import Final

import pytest

from .expected import FAILS, ON_ONE_REPLICA
from .pair import WORKERS, Outcome, run

FILE: Final = "trainers/trainer_test.py"
CLASS: Final = "TestTrainer"

pytestmark = [pytest.mark.trainer, pytest.mark.long, pytest.mark.timeout(3600)]


def methods() -> list[str]:
    """Return the names of the tests in Keras' file, which is read and not imported: that takes seconds."""
    keras = importlib.util.find_spec("keras")
    assert keras is not None
    assert keras.submodule_search_locations
    tree = ast.parse((Path(keras.submodule_search_locations[0]) / "src" / FILE).read_text())
    [tests] = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == CLASS]
    names = [node.name for node in tests.body if isinstance(node, ast.FunctionDef)]
    return [name for name in names if name.startswith("test_")]


METHODS: Final = methods()


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """Return how each test has ended, by names such as `test_fit_flow_eager`, a case of the method `test_fit_flow`."""
    ended = run([f"{FILE}::{CLASS}"], tmp_path_factory.mktemp("pairs"))
    return {name.rpartition("::")[2]: outcome for name, outcome in ended.items()}


@pytest.mark.parametrize("method", METHODS)
def test_two_workers_pass_keras_own_test(outcomes: dict[str, Outcome], method: str) -> None:
    # given all cases of a test, and those that fail for a reason
    cases = {name: outcome for name, outcome in outcomes.items() if method_of(name) == method}
    ran = {name: outcome for name, outcome in cases.items() if outcome.outcome != "skipped"}
    if cases and not ran:
        pytest.skip("; ".join(sorted({outcome.text for outcome in cases.values()})))
    # then these fail, no other one does
    failed = {name: outcome.text for name, outcome in ran.items() if outcome.outcome == "failed"}
    expected = FAILS.keys() & ran.keys()
    assert failed.keys() >= expected, f"passed, so remove from FAILS: {sorted(expected - failed.keys())}"
    assert failed.keys() == expected, "\n".join(f"{name}: {failed[name]}" for name in failed.keys() - expected)
    # then the model ran on both workers
    alone = {name for name, outcome in ran.items() if outcome.outcome == "passed" and outcome.replicas != WORKERS}
    assert ran
    assert not alone or method in ON_ONE_REPLICA, f"without the strategy: {sorted(alone)}"


def test_each_expectation_is_about_a_test_of_keras(outcomes: dict[str, Outcome]) -> None:
    assert not FAILS.keys() - outcomes.keys()
    assert not ON_ONE_REPLICA.keys() - set(METHODS)


def method_of(case: str) -> str:
    """Return the method that a case belongs to: the longest one that its name begins with."""
    return max((name for name in METHODS if case.startswith(name)), key=len)
