"""What makes a step slow on GPUs, by the operations in its graph: this needs no GPU, only more than one device."""

import json
import os
from typing import Any

import pytest
from support import step_probe
from support.forked import Fork

from tfdist_trainer.strategies.devices import LOGICAL_CPUS_ENV

pytestmark = pytest.mark.trainer

TIMEOUT_SECONDS = 300
REPLICAS = pytest.mark.parametrize("replicas", [1, 2])


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What the probe writes, by number of replicas."""
    folder = tmp_path_factory.mktemp("graphs")
    environ = {name: value for name, value in os.environ.items() if name not in {"TF_CONFIG", LOGICAL_CPUS_ENV}}
    script = (str(step_probe.__file__), str(folder / "graphs"))
    probe = Fork(environ | {"CUDA_VISIBLE_DEVICES": "-1"}, folder / "output", script)
    assert probe.wait(TIMEOUT_SECONDS) == 0, (folder / "output").read_text()[-4000:]
    written: dict[str, dict[str, Any]] = json.loads((folder / "graphs").read_text())
    return written


def test_the_gradients_of_all_variables_are_exchanged_together(graphs: dict[str, dict[str, Any]]) -> None:
    assert step_probe.VARIABLES == 40
    assert graphs["1"]["exchanges"] == []
    assert graphs["2"]["exchanges"] == ["CollectiveReduceV2"] * 2, "one for each replica"


def test_the_gradients_of_the_last_layers_are_exchanged_while_those_of_the_first_are_computed(
    graphs: dict[str, dict[str, Any]],
) -> None:
    awaited = graphs["packs"]["awaitedGradients"]
    assert awaited[:6] == [5, 5, 10, 10, 15, 15], "packs of each of two replicas in turn"
    assert len(awaited) == 2 * 5


@REPLICAS
def test_no_operation_of_a_step_calls_python(graphs: dict[str, dict[str, Any]], replicas: int) -> None:
    assert graphs[str(replicas)]["python"] == []


@REPLICAS
def test_the_host_starts_the_next_step_without_a_result_of_the_last_one(
    graphs: dict[str, dict[str, Any]], replicas: int
) -> None:
    assert graphs[str(replicas)]["loopReads"] == []


@REPLICAS
def test_a_step_before_the_last_one_copies_nothing_to_the_host(
    graphs: dict[str, dict[str, Any]], replicas: int
) -> None:
    assert graphs[str(replicas)]["hostReads"] == []
