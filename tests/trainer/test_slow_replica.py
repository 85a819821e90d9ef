"""A replica whose steps take longer than those of the others is named in the report of the leader, and no other is."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from support.forked import Fork
from support.polling import wait_for
from support.slow_steps import HURRY, PACES, SECONDS, set_pace

from tfdist.contract import Role

if TYPE_CHECKING:
    from trainer.replicas import Launch, Replicas

pytestmark = pytest.mark.trainer

SCRIPT: Final = Path(__file__).parents[1] / "support/programs/slowed_fit.py"
ENDLESS: Final = 1_000_000
ROLES: Final = {"chief": 1, "worker": 3, "ps": 1}
PACE: Final = 0.05
"""Seconds in which a worker reads an example, or computes a step: more than the load of other processes costs."""
WORKERS: Final = 3


def started(launch: "Launch", folder: Path, environs: dict[int, dict[str, str]]) -> "Replicas":
    """Start workers with these environments."""
    config = {"batchSizePerReplica": 2, "epochs": ENDLESS, "shuffleBuffer": 1}
    job = {
        "training": {"program": "support.slowed_program:Line", "config": config},
        "logDirectory": str(folder),
        "checkpoint": None,
    }
    return launch(len(environs), config={}, job=job, environs=environs)


def scripts(launch: "Launch", folder: Path, environs: dict[int, dict[str, str]]) -> "Replicas":
    """Start workers that run the script, with these environments."""
    job = {"logDirectory": str(folder), "training": None}
    gang = launch(len(environs), config={}, job=job, environs=environs, absent=range(len(environs)))
    for index, environ in enumerate(gang.environs):
        gang.processes[index] = Fork(environ, gang.folder / f"out-{index}", [str(SCRIPT)])
    return gang


def servers(launch_roles: "Launch", folder: Path, environ: dict[str, str]) -> "Replicas":
    """Start a chief with this environment, workers and a parameter server."""
    job = {
        "strategy": "ParameterServer",
        "training": {
            "program": "support.slowed_program:Paced",
            "config": {"batchSizePerReplica": 2, "epochs": ENDLESS, "shuffleBuffer": 1},
        },
        "logDirectory": str(folder),
        "checkpoint": None,
    }
    return launch_roles(ROLES, config={}, job=job, environs={0: environ})


def paces(folder: Path) -> dict[int, dict[str, str]]:
    """Return the environments of workers that compute at the paces in `folder`."""
    return {index: {SECONDS: f"{folder}/{index}"} for index in range(WORKERS)}


def in_hurry(*seconds: float) -> dict[int, dict[str, str]]:
    """Return the environments of workers whose steps take so many seconds, of which a slow one is named early."""
    return {index: {SECONDS: str(own), HURRY: "1"} for index, own in enumerate(seconds)}


def test_the_worker_that_computes_longest_is_named_with_its_times(launch: "Launch", tmp_path: Path) -> None:
    """Given three workers of which one takes four times as long; then the leader names it, and the others wait."""
    gang = started(launch, tmp_path, in_hurry(0.05, 0.2, 0.05))
    check_named(gang, tmp_path)


@pytest.mark.long
def test_the_worker_of_a_script_that_computes_longest_is_named_with_its_times(launch: "Launch", tmp_path: Path) -> None:
    """Given three workers with `fit`, of which one takes four times as long; then the leader names it."""
    gang = scripts(launch, tmp_path, in_hurry(0.05, 0.2, 0.05))
    check_named(gang, tmp_path)


def check_named(gang: "Replicas", folder: Path) -> None:
    """Check that worker 1 is named everywhere, with steps of 0.2 s."""
    report = gang.progress_when(lambda found: found.slow_replica is not None)
    slow = report.slow_replica
    assert slow is not None
    assert (slow.role, slow.index) == (Role.WORKER, 1)
    assert slow.own_millis >= 200
    assert slow.others_millis < slow.own_millis / 1.5
    assert report.exchange_wait_millis is not None
    assert report.exchange_wait_millis > 0
    assert gang.progress_when(lambda found: found.exchange_wait_millis is not None, index=1).slow_replica is None
    wait_for("the log", lambda: "slow-replica" in gang.output())
    # A writer keeps points for ten seconds at most: TensorBoard, too, has the name and the times of each worker.
    wait_for("the text in TensorBoard", lambda: b"slow_replica" in written(folder / "train"))
    wait_for(
        "the times in TensorBoard",
        lambda: all(b"compute_millis" in written(folder / f"worker-{n}") for n in range(3)),
    )
    assert b"worker-1: " in written(folder / "train")


@pytest.mark.long
def test_the_worker_whose_closures_take_longest_is_named_with_its_times(launch_roles: "Launch", tmp_path: Path) -> None:
    """Given parameter servers, and three workers of which one reads four times as long; then the chief names it."""
    for worker in range(WORKERS):
        set_pace(tmp_path, worker, 4 * PACE if worker == 1 else PACE)
    gang = servers(launch_roles, tmp_path, {PACES: str(tmp_path), HURRY: "1"})
    # A load of other processes may have another one named first.
    slow = gang.progress_when(
        lambda found: found.slow_replica is not None and found.slow_replica.index == 1
    ).slow_replica
    assert slow is not None
    assert slow.role == Role.WORKER
    assert slow.own_millis > 1.5 * slow.others_millis > 0
    assert slow.input_wait_millis > slow.own_millis / 2
    wait_for("the log", lambda: "slow-replica" in gang.output())
    wait_for("the text in TensorBoard", lambda: b"worker-1: " in written(tmp_path / "train"))


def written(run: Path) -> bytes:
    """Return the content of the event files of a run."""
    return b"".join(file.read_bytes() for file in run.glob("events.*"))


WAYS: Final[dict[str, Callable[..., "Replicas"]]] = {
    "own loop": lambda launch, _, folder: started(launch, folder, paces(folder)),
    "fit": lambda launch, _, folder: scripts(launch, folder, paces(folder)),
    "parameter servers": lambda _, launch_roles, folder: servers(launch_roles, folder, {PACES: str(folder)}),
}


@pytest.mark.long  # a load of other processes can slow one worker down
@pytest.mark.parametrize("way", WAYS)
def test_a_worker_slowed_to_half_is_named_and_none_before(
    launch: "Launch", launch_roles: "Launch", tmp_path: Path, way: str
) -> None:
    """Given a healthy gang in which none is named; when one worker has half its speed; then it is named."""
    for worker in range(WORKERS):
        set_pace(tmp_path, worker, PACE)
    gang = WAYS[way](launch, launch_roles, tmp_path)
    begin = gang.progress_when(lambda found: (found.step or 0) > 0).step or 0
    healthy = gang.progress_when(lambda found: found.slow_replica is not None or (found.step or 0) >= begin + 200)
    assert healthy.slow_replica is None
    began = time.monotonic()
    set_pace(tmp_path, 1, 2 * PACE)
    slow = gang.progress_when(lambda found: found.slow_replica is not None).slow_replica
    print(f"{way}: named after {time.monotonic() - began:.1f} s")
    assert slow is not None
    assert (slow.role, slow.index) == (Role.WORKER, 1)
