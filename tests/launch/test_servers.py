"""A parameter server gang of a user's own script, with its own `tf.distribute.Server`, under launchers."""

import json
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from launch.conftest import PRELUDE
from support.launchers import Launchers, program_of
from support.polling import wait_for
from support.ports import free_ports

if TYPE_CHECKING:
    from launch.conftest import Launch

pytestmark = [pytest.mark.trainer, pytest.mark.timeout(400)]

CHIEF, PS, FIRST = 0, 1, 2
"""Seats: the chief leads, then the parameter server and two workers."""

COUNTS: Final = """
import tensorflow as tf
import tfdist_trainer
resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
if resolver.task_type != "chief":
    server = tf.distribute.Server(
        resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id, protocol="grpc"
    )
    ready()
    server.join()
strategy = tf.distribute.ParameterServerStrategy(resolver)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
with strategy.scope():
    counter = tf.Variable(0)
(folder / f"began-{number}").write_text(str(int(counter.numpy())))
add = tf.function(lambda: counter.assign_add(1))
ready()
while not (folder / "end").exists():
    coordinator.schedule(add)
    coordinator.join()
    tfdist_trainer.report(step=int(counter.numpy()))
    time.sleep(0.01)
"""


@pytest.fixture
def gang(launch: "Launch", tmp_path: Path) -> Launchers:
    """One chief, one parameter server and two workers that count."""
    roles = {"chief": 1, "ps": 1, "worker": 2}
    members = [(role, index) for role, count in roles.items() for index in range(count)]
    addresses = iter([f"127.0.0.1:{port}" for port in free_ports(4)])
    cluster = {role: [next(addresses) for _ in range(count)] for role, count in roles.items()}
    script = tmp_path / "counts.py"
    script.write_text(PRELUDE + COUNTS)

    def environ(rank: int) -> dict[str, str]:
        role, index = members[rank]
        spec = {"cluster": cluster, "task": {"type": role, "index": index}}
        return {"TF_CONFIG": json.dumps(spec), "CUDA_VISIBLE_DEVICES": "-1", "GRPC_FAIL_FAST": "use_caller"}

    return launch(
        4,
        command=("--", "python", str(script)),
        settings={
            "memberRanges": [
                {"role": r, "index": i, "count": 1, "requiredForSuccess": r == "chief"} for r, i in members
            ]
        },
        job={"strategy": "ParameterServer", "replicas": roles},
        job_of=lambda rank: dict(zip(("role", "index"), members[rank], strict=True)),
        environ_of=environ,
    )


def counts(gang: Launchers, number: int, beyond: int = 0) -> int:
    """Return how far the chief has counted, once it counts in that round of its own."""

    def current() -> int:
        report = gang.report(CHIEF)
        if report is None or report.phase != "training" or report.round != number or report.step is None:
            return 0
        return report.step if report.step > beyond else 0

    return wait_for("the chief to count", current, context=gang.output)


def test_a_lost_worker_is_started_alone_and_a_lost_parameter_server_with_all(gang: Launchers) -> None:
    step = counts(gang, 0)
    others = [program_of(gang, rank) for rank in (CHIEF, PS, FIRST + 1)]
    os.kill(program_of(gang, FIRST), signal.SIGKILL)
    gang.program(FIRST, 1)
    step = counts(gang, 0, beyond=step)
    assert [program_of(gang, rank) for rank in (CHIEF, PS, FIRST + 1)] == others

    os.kill(program_of(gang, PS), signal.SIGKILL)
    assert [gang.program(rank, 2) for rank in range(4)]
    assert counts(gang, 2)
    assert (gang.folder / "began-2").read_text() == "0", "the counter was on the server that is lost"
    causes = [f for f in gang.gang_when(lambda report: len(report.failures) > 1).failures if f.root_cause]
    assert [(f.role, f.index, f.exit_code) for f in causes] == [("worker", 0, 137), ("ps", 0, 137)]

    (gang.folder / "end").touch()
    assert gang.exit_code(gang.processes[CHIEF]) == 0, gang.output()
