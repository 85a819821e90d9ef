"""Every strategy trains, and evaluates as one process does; an asynchronous gang survives the loss of a worker."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from support.ports import free_ports
from trainer.conftest import Replicas, replica_environ

from tfdist.contract import ExitCode, Role
from tfdist_trainer.checkpoint import FinalRecord, Record, read_record

if TYPE_CHECKING:
    from trainer.conftest import Launch

pytestmark = pytest.mark.trainer

Roles = Mapping[str, int]


@dataclass
class Cluster(Replicas):
    """The processes of a gang of several roles, in order of roles."""

    places: dict[str, list[str]] = field(default_factory=dict)
    """`host:port` of each replica of each role."""


LaunchRoles = Callable[..., Cluster]


@pytest.fixture
def launch_roles(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LaunchRoles]:
    """A function that starts the replicas of several roles, in the order given; the first is number 0."""
    started: list[Cluster] = []

    def start(roles: Roles, *, config: dict[str, Any], job: dict[str, Any]) -> Cluster:
        members = [(role, index) for role, count in roles.items() for index in range(count)]
        replicas = Cluster(tmp_path_factory.mktemp("roles"), report_ports=free_ports(len(members)))
        started.append(replicas)
        ports = iter(free_ports(len(members)))
        replicas.places = {role: [f"127.0.0.1:{next(ports)}" for _ in range(count)] for role, count in roles.items()}
        for number in range(len(members)):
            start_member(replicas, number, config, job)
        return replicas

    yield start
    for replicas in started:
        replicas.stop()


def start_member(replicas: Cluster, number: int, config: dict[str, Any], job: dict[str, Any]) -> None:
    """Start member `number`, or start it again."""
    cluster = replicas.places
    members = [(role, index) for role, places in cluster.items() for index in range(len(places))]
    role, index = members[number]
    told = job | {"role": role, "index": index, "replicas": {name: len(places) for name, places in cluster.items()}}
    environ = replica_environ(replicas, number, ["alone"], config, told)
    environ["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": {"type": role, "index": index}})
    environ["TMPDIR"] = str(replicas.folder)
    with (replicas.folder / f"out-{number}").open("ab") as output:
        command = [sys.executable, "-m", "tfdist_trainer"]
        process = subprocess.Popen(command, env=environ, stdout=output, stderr=subprocess.STDOUT)
    replicas.processes[number] = process


def final_record(directory: Path) -> Record:
    final = FinalRecord.model_validate_json((directory / "final.json").read_bytes())
    return read_record(Path(final.path))


def job(directory: Path, **fields: Any) -> dict[str, Any]:
    return {"checkpoint": {"directory": str(directory)} | fields.pop("checkpoint", {})} | fields


def evaluation(launch: "Launch", config: dict[str, Any], directory: Path) -> dict[str, float]:
    evaluated = launch(1, config=config, job=job(directory, task="Evaluate"))
    assert evaluated.wait() == [0], evaluated.output()
    report = evaluated.termination().evaluation
    assert report is not None
    assert report.examples == 101
    return report.metrics


def test_mirrored_over_two_devices_trains_as_one_device_does(
    launch: "Launch", config: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = config | {"epochs": 3, "shuffleBuffer": 0, "globalBatchSize": 204}
    del whole["batchSizePerReplica"]
    one = launch(1, config=whole, job=job(tmp_path / "one", strategy="OneDevice"))
    monkeypatch.setenv("TFDIST_LOGICAL_CPUS", "2")
    two = launch(1, config=whole, job=job(tmp_path / "two", strategy="Mirrored"))
    assert one.wait() + two.wait() == [0, 0], one.output() + two.output()
    assert "devices CPU=1" in one.output()
    assert "batchSize=204" in two.output()
    records = [final_record(tmp_path / name).position for name in ("one", "two")]
    assert [record.examples for record in records] == [3 * 203] * 2
    assert [record.layout[1] for record in records] == [1, 2], "the number of replicas"
    assert two.termination().metrics == pytest.approx(one.termination().metrics, rel=1e-5)


def test_an_asynchronous_gang_survives_a_killed_worker_and_ends_everywhere(
    launch_roles: LaunchRoles, launch: "Launch", config: dict[str, Any], tmp_path: Path
) -> None:
    roles = {"chief": 1, "worker": 2, "ps": 2}
    told = job(tmp_path / "ckpt", strategy="ParameterServer", checkpoint={"everySteps": 100})
    long = config | {"epochs": 40}
    gang = launch_roles(roles, config=long, job=told)
    gang.progress_when(lambda report: (report.step or 0) > 100)
    gang.processes[1].send_signal(signal.SIGKILL)
    gang.processes[1].wait()
    start_member(gang, 1, long, told)
    assert gang.wait(240) == [0] * 5, "\n".join(gang.output(number) for number in range(5))
    position = final_record(tmp_path / "ckpt").position
    assert position.step == 40 * 26
    assert final_record(tmp_path / "ckpt").writer.role is Role.CHIEF
    metrics = evaluation(launch, config, tmp_path / "ckpt")
    assert metrics["accuracy"] > 0.8
    assert np.isfinite(metrics["loss"])


def test_a_lost_parameter_server_ends_the_chief(
    launch_roles: LaunchRoles, config: dict[str, Any], tmp_path: Path
) -> None:
    told = job(tmp_path / "ckpt", strategy="ParameterServer", checkpoint={"everySteps": 100})
    gang = launch_roles({"chief": 1, "worker": 1, "ps": 1}, config=config | {"epochs": 100_000}, job=told)
    gang.progress_when(lambda report: (report.step or 0) > 0)
    gang.processes[2].send_signal(signal.SIGKILL)
    assert gang.processes[0].wait(300) == ExitCode.PEER_LOST, gang.output()
    assert gang.termination().reason == "PeerLost"


def test_an_embedding_is_divided_over_the_parameter_servers_and_evaluated_exactly(
    launch_roles: LaunchRoles, launch: "Launch", tmp_path: Path
) -> None:
    rows = [f"{word} {other},{kind}" for kind, pair in enumerate(("ab", "cd")) for word in pair for other in pair]
    for split in ("train", "eval"):
        (tmp_path / f"{split}.csv").write_text("text,label\n" + "\n".join(8 * rows) + "\n")
    config = {
        "data": {split: f"{tmp_path}/{split}.csv" for split in ("train", "eval")},
        "classes": 2,
        "length": 4,
        "embedding": 64,
        "hiddenUnits": 4,
        "epochs": 20,
        "batchSizePerReplica": 8,
        "learningRate": 0.01,
        "minShardBytes": 512,
    }
    told = job(tmp_path / "ckpt", strategy="ParameterServer")
    told["training"] = {"program": "text_classification", "config": config}
    gang = launch_roles({"chief": 1, "worker": 1, "ps": 2}, config={}, job=told)
    assert gang.wait() == [0] * 4, "\n".join(gang.output(number) for number in range(4))
    placed = re.search(r"placed ps-0=(\d+) ps-1=(\d+) shards=(\d+)", gang.output())
    assert placed, gang.output()
    assert int(placed[3]) >= 2, "the embedding is of two shards"
    assert min(int(placed[1]), int(placed[2])) >= 512, "each keeps a part"

    evaluations = [launch(size, config={}, job=told | {"task": "Evaluate"}) for size in (1, 2)]
    results = []
    for evaluated in evaluations:
        assert set(evaluated.wait()) == {0}, evaluated.output()
        report = evaluated.termination().evaluation
        assert report is not None
        assert report.examples == 64
        results.append(report.metrics)
    assert results[0]["accuracy"] > 0.9
    assert results[0] == pytest.approx(results[1], rel=1e-6)


def test_an_asynchronous_gang_without_a_chief_is_refused(launch_roles: LaunchRoles, config: dict[str, Any]) -> None:
    gang = launch_roles({"worker": 1, "ps": 1}, config=config, job={"strategy": "ParameterServer"})
    assert gang.wait() == [ExitCode.CONFIGURATION] * 2
    assert "needs one chief" in gang.termination().message
