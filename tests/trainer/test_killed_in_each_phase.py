"""kill -9 of each role in each phase: the other replicas exit or report the member they wait for, and nothing is lost.

The replicas run `support.breakpoint_program`, which stops where a test wants it to, so that each kill meets its phase.
All begin from a checkpoint, and after the kill a restart goes on from the newest one and ends.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from support.breakpoint_program import COMPUTES
from support.polling import WAIT_SECONDS
from trainer.attempts import BEGUN, DONE, ENDLESS, EXAMPLES, SAVES, Attempts, job
from trainer.conftest import launching

from tfdist.contract import Phase
from tfdist.contract_reports import EvaluationReport
from tfdist_trainer.evaluation_store import EvaluationStore

if TYPE_CHECKING:
    from trainer.replicas import Launch

pytestmark = pytest.mark.trainer


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a checkpoint of the first epoch."""
    directory = tmp_path_factory.mktemp("begun")
    with launching(tmp_path_factory) as start:
        replicas = start({"worker": 2}, config={}, job=job(directory, epochs=1))
        assert replicas.wait(WAIT_SECONDS) == [0, 0], replicas.outputs
    return directory


@pytest.fixture
def attempts(begun: Path, launch_roles: "Launch", tmp_path: Path) -> Callable[..., Attempts]:
    """A function that makes the attempts of a job with `roles`."""

    def make(roles: dict[str, int], **settings: Any) -> Attempts:
        return Attempts(launch_roles, roles, Path(shutil.copytree(begun, tmp_path / "checkpoints")), settings)

    return make


@pytest.mark.parametrize("victim", [0, pytest.param(1, marks=pytest.mark.long)], ids=["chief", "worker"])
def test_a_killed_member_of_a_synchronous_gang_is_reported_and_no_step_is_lost(
    attempts: Callable[..., Attempts], victim: int
) -> None:
    job, survivor = attempts({"worker": 2}), 1 - victim

    job.start({victim: "connecting"}, CONNECT_SECONDS="5")
    job.until_held(victim)
    job.kill(victim)
    job.loses_its_peer(survivor)

    job.start({victim: "compiling"})
    job.until_held(victim)
    job.kill(victim)
    job.loses_its_peer(survivor)

    job.start({}, epochs=ENDLESS, saves=ENDLESS)
    job.now.progress_when(lambda report: report.phase is Phase.TRAINING, victim)
    job.kill(victim)
    job.loses_its_peer(survivor)
    assert f"restored step={BEGUN} " in job.now.output(survivor)

    # The chief alone saves. It is killed with its variables written, or the other before that.
    job.start({0: "written" if victim == 0 else "saving"})
    job.until_held(0)
    job.kill(victim)
    if victim != 0:
        job.let_go(0)
    job.loses_its_peer(survivor)
    saved = BEGUN if victim == 0 else SAVES
    assert job.newest() == saved

    job.start({victim: "starting"})
    job.until_held(victim)
    job.kill(victim)
    waiting = job.now.progress_when(lambda report: bool(report.waiting_for), survivor)
    assert waiting.waiting_for == [job.now.addresses[victim]]
    job.start_again(victim)
    at = job.ends()
    assert (at.step, at.examples) == (DONE, 3 * EXAMPLES)
    assert f"restored step={saved} " in job.now.output(victim)


@pytest.mark.long
def test_sigterm_ends_a_member_while_others_connect(attempts: Callable[..., Attempts]) -> None:
    job = attempts({"worker": 2})
    job.start({1: "connecting"})
    job.until_held(1)
    job.wait_for_output(0, "joining")
    job.stop(0)


ASYNCHRONOUS: Final = {"chief": 1, "worker": 2, "ps": 1}
ASYNCHRONOUS_DONE: Final = BEGUN + 2 * 7
"""A step is one worker's, and two epochs are left."""
CHIEF, WORKER, OTHER_WORKER, SERVER = range(4)


@pytest.fixture
def asynchronous(attempts: Callable[..., Attempts]) -> Attempts:
    return attempts(ASYNCHRONOUS, strategy="ParameterServer")


def is_waited_for(job: Attempts, number: int) -> None:
    """Return when the chief reports that it waits only for one member."""
    job.wait_for_output(CHIEF, f"waiting for {job.now.addresses[number]} to listen")


@pytest.mark.long
def test_a_killed_worker_of_parameter_servers_joins_again(attempts: Callable[..., Attempts]) -> None:
    stopping = {"earlyStopping": {"patience": 1}}
    job = attempts(ASYNCHRONOUS, strategy="ParameterServer", evaluation=stopping)
    places = ("connecting", "compiling", "between", "saving")
    job.start({WORKER: "starting", CHIEF: ",".join(places)}, epochs=ENDLESS)
    job.until_held(WORKER)
    job.kill(WORKER)
    is_waited_for(job, WORKER)
    job.start_again(WORKER)
    for place in places:
        job.until_held(CHIEF)
        job.kill(WORKER)
        before = job.now.output(WORKER).count(COMPUTES)
        job.start_again(WORKER)
        if place == "connecting":
            job.wait_for_output(WORKER, "serving", 2)
        job.let_go(CHIEF)
    # A worker that comes when the chief has ended waits for the next one: so until it takes part again.
    job.wait_for_output(WORKER, COMPUTES, before + 1)
    EvaluationStore(job.directory, "uid-1", tag="test").request_stop(SAVES, "the last checkpoint is saved")
    assert job.ends().step > SAVES


@pytest.mark.long
def test_a_killed_parameter_server_ends_the_chief_or_is_waited_for(asynchronous: Attempts) -> None:
    job = asynchronous
    for place in ("reading", "compiling", "between", "saving"):
        job.start({CHIEF: place})
        job.until_held(CHIEF)
        job.kill(SERVER)
        job.let_go(CHIEF)
        job.loses_its_peer(CHIEF)
        job.stop(WORKER, OTHER_WORKER)
        assert job.newest() == BEGUN
    job.start({SERVER: "starting", CHIEF: "connecting"})
    job.until_held(SERVER)
    job.kill(SERVER)
    is_waited_for(job, SERVER)
    job.start_again(SERVER)
    job.until_held(CHIEF)
    job.kill(SERVER)
    job.start_again(SERVER)
    job.wait_for_output(SERVER, "serving", 2)
    job.let_go(CHIEF)
    assert job.ends().step == ASYNCHRONOUS_DONE


@pytest.mark.long
def test_a_killed_chief_of_parameter_servers_starts_again_from_the_checkpoint(asynchronous: Attempts) -> None:
    job = asynchronous
    for place in ("connecting", "compiling", "between"):
        job.start({CHIEF: place})
        job.until_held(CHIEF)
        job.kill(CHIEF)
        job.stop(WORKER, OTHER_WORKER, SERVER)
        assert job.newest() == BEGUN
    job.start({CHIEF: "written"}, PATIENCE_SECONDS="15")
    job.until_held(CHIEF)
    job.kill(CHIEF)
    for server in (WORKER, OTHER_WORKER, SERVER):
        job.loses_its_peer(server)
    assert job.newest() == BEGUN
    job.start({CHIEF: "starting"})
    job.until_held(CHIEF)
    job.kill(CHIEF)
    job.start_again(CHIEF)
    assert job.ends().step == ASYNCHRONOUS_DONE


@pytest.mark.long
def test_a_killed_member_of_an_evaluation_gang_leaves_no_partial_score(attempts: Callable[..., Attempts]) -> None:
    job = attempts({"worker": 2}, task="Evaluate")
    for place in ("reading", "compiling"):
        for victim in (0, 1):
            job.start({victim: place})
            job.until_held(victim)
            job.kill(victim)
            job.loses_its_peer(1 - victim)
    assert not list(job.directory.glob("evaluation/*.json"))

    job.start({})
    assert job.now.wait(WAIT_SECONDS) == [0, 0], job.now.outputs
    is_scored(job)


def is_scored(job: Attempts) -> None:
    """Check that the checkpoint has a score, of every example once."""
    stored = EvaluationReport.model_validate_json((job.directory / "evaluation" / f"{BEGUN}.json").read_bytes())
    assert (stored.step, stored.examples) == (BEGUN, EXAMPLES)
    assert not list(job.directory.glob("evaluation/.tmp-*"))


@pytest.mark.long
def test_a_killed_evaluator_scores_the_checkpoint_after_its_restart(attempts: Callable[..., Attempts]) -> None:
    judged = {"mode": "Continuous", "metric": "loss", "goal": "Minimize"}
    job = attempts({"worker": 1}, task="Evaluate", role="evaluator", evaluation=judged)
    checkpoint = job.directory / f"checkpoint-{BEGUN:09d}"
    for name in (checkpoint.name, "final.json"):
        (job.directory / name).rename(job.directory.with_name(name))

    job.start({0: "starting"})
    job.until_held(0)
    job.kill(0)

    job.start({})
    job.now.progress_when(lambda report: report.phase is Phase.EVALUATING)
    assert "for the first checkpoint in" in job.now.output()
    job.kill(0)

    for name in (checkpoint.name, "final.json"):
        job.directory.with_name(name).rename(job.directory / name)
    for place in ("reading", "compiling"):
        job.start({0: place})
        job.until_held(0)
        job.kill(0)
        assert json.loads((job.directory / "evaluation" / "evaluating.json").read_text())["step"] == BEGUN

    job.start({})
    assert job.now.wait(WAIT_SECONDS) == [0], job.now.outputs
    is_scored(job)
    assert not (job.directory / "evaluation" / "evaluating.json").exists()
