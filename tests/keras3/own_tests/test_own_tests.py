"""Keras' own tests of training and callbacks, from the installed package, by two workers each."""

import ast
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from .expected import DEPENDS_ON_SPEED, FAILS, ON_ONE_REPLICA
from .pair import WORKERS, Outcome, run

FILES: Final = (
    "trainers/trainer_test.py::TestTrainer",
    "callbacks/backup_and_restore_test.py",
    "callbacks/callback_test.py",
    "callbacks/csv_logger_test.py",
    "callbacks/early_stopping_test.py",
    "callbacks/lambda_callback_test.py",
    "callbacks/learning_rate_scheduler_test.py",
    "callbacks/model_checkpoint_test.py",
    "callbacks/monitor_callback_test.py",
    "callbacks/reduce_lr_on_plateau_test.py",
    "callbacks/swap_ema_weights_test.py",
    "callbacks/tensorboard_test.py",
    "callbacks/terminate_on_nan_test.py",
)
"""Keras' tests that train. Those of data adapters make no model, and two callbacks need packages that are absent."""

pytestmark = [pytest.mark.trainer, pytest.mark.long, pytest.mark.timeout(3600)]


def methods() -> Iterator[str]:
    """Yield the names of the tests in Keras' files, which are read and not imported: that takes seconds."""
    keras = importlib.util.find_spec("keras")
    assert keras is not None
    assert keras.submodule_search_locations
    for part in FILES:
        file, _, only = part.partition("::")
        tree = ast.parse((Path(keras.submodule_search_locations[0]) / "src" / file).read_text())
        classes = (node for node in tree.body if isinstance(node, ast.ClassDef))
        for tests in (node for node in classes if not only or node.name == only):
            names = (node.name for node in tests.body if isinstance(node, ast.FunctionDef))
            yield from (f"{tests.name}::{name}" for name in names if name.startswith("test_"))


METHODS: Final = tuple(methods())


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """Return how each test has ended, by names such as `TestTrainer::test_fit_flow_eager`, a case of a test."""
    ended = run(FILES, tmp_path_factory.mktemp("pairs"))
    return {name.partition("::")[2]: outcome for name, outcome in ended.items()}


@pytest.mark.parametrize("method", METHODS)
def test_two_workers_pass_keras_own_test(outcomes: dict[str, Outcome], method: str) -> None:
    # given all cases of a test, and those that fail for a reason
    cases = {name: outcome for name, outcome in outcomes.items() if method_of(name) == method}
    ran = {name: outcome for name, outcome in cases.items() if outcome.outcome != "skipped"}
    if cases and not ran:
        pytest.skip("; ".join(sorted({outcome.text for outcome in cases.values()})))
    # then these fail, no other one does
    decided = {name: outcome for name, outcome in ran.items() if name not in DEPENDS_ON_SPEED}
    failed = {name: outcome.text for name, outcome in decided.items() if outcome.outcome == "failed"}
    expected = FAILS.keys() & ran.keys()
    assert failed.keys() >= expected, f"passed, so remove from FAILS: {sorted(expected - failed.keys())}"
    assert failed.keys() == expected, "\n".join(f"{name}: {failed[name]}" for name in failed.keys() - expected)
    # then the model ran on both workers
    alone = {name for name, outcome in ran.items() if outcome.outcome == "passed" and outcome.replicas != WORKERS}
    assert ran
    assert not alone or method in ON_ONE_REPLICA, f"without the strategy: {sorted(alone)}"


def test_each_expectation_is_about_a_test_of_keras(outcomes: dict[str, Outcome]) -> None:
    assert not (FAILS | DEPENDS_ON_SPEED).keys() - outcomes.keys()
    assert not ON_ONE_REPLICA.keys() - set(METHODS)


def method_of(case: str) -> str:
    """Return the method that a case belongs to: the longest one that its name begins with."""
    return max((name for name in METHODS if case.startswith(name)), key=len, default="")
