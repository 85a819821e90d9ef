"""Checkpoints of Keras scripts in object stores: killed, they end as with files."""

import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from support.faulty_server import Fault, FaultyServer
from support.object_servers import GS_IS_LONG
from support.polling import WAIT_SECONDS, wait_for
from trainer.resumed_scripts import STEPS, Script

from tfdist.contract import ExitCode
from tfdist_trainer.checkpoint import CheckpointReader
from tfdist_trainer.evaluation_store import protected_steps
from tfdist_trainer.storage.locations import open_folder

pytestmark = pytest.mark.trainer


@pytest.mark.long
def test_two_workers_that_are_killed_resume_from_the_bucket_and_end_as_with_files(store: str, tmp_path: Path) -> None:
    # given
    undisturbed, _ = Script(tmp_path / "files", workers=2).until_done()
    script = Script(tmp_path / "run", "SIGKILL@12", "SIGTERM@25@1", workers=2, store=store)
    # when
    first, second = script.until_done()
    # then
    assert first == second
    assert first[2:] == undisturbed[2:], "weights, and the state of a callback"
    assert script.exit_codes[0][0] == -signal.SIGKILL
    assert script.exit_codes[1:] == [[ExitCode.PREEMPTED] * 2, [0, 0]]
    assert "restored step=" in (script.folder / "1-1.txt").read_text(), script.outputs()
    # then the last checkpoint, the best one and the exported models are in the bucket
    message, final = script.message(), CheckpointReader(f"{store}/checkpoints").final("1")
    assert final is not None
    assert message.last_checkpoint is not None
    assert message.best_evaluation is not None
    assert message.last_checkpoint.path == final.path == f"{store}/checkpoints/checkpoint-{STEPS:09d}"
    assert protected_steps(f"{store}/checkpoints") == frozenset({message.best_evaluation.step})
    assert [each.step for each in message.exports] == [STEPS, message.best_evaluation.step]
    assert open_folder(f"{store}/models/best").names() == ["model.keras", "saved_model"]


@pytest.mark.long
def test_a_script_that_is_killed_in_an_upload_ends_as_with_files(
    undisturbed: list[Any], store: str, proxy: FaultyServer, tmp_path: Path
) -> None:
    # given: it is killed while it uploads the variables of its second checkpoint
    script = Script(tmp_path / "run", store=store)
    proxy.faults = [Fault("hold", 1000, "variables.npz", after_requests=1)]
    script.start()
    wait_for("the upload", proxy.held.is_set, context=script.outputs)
    script.kill()
    proxy.faults = []
    # when
    [result] = script.until_done()
    # then
    assert result == undisturbed
    assert script.exit_codes == [[-signal.SIGKILL], [0]]
    assert f"path={store}/checkpoints/checkpoint-" in (script.folder / "1-0.txt").read_text(), script.outputs()


@pytest.mark.long
def test_no_worker_leaves_for_sigterm_before_the_chief_has_saved(
    store: str, proxy: FaultyServer, tmp_path: Path
) -> None:
    # given: SIGTERM arrives at one worker while the chief uploads a checkpoint
    script = Script(tmp_path / "run", "SIGTERM@6@1", workers=2, store=store)
    proxy.faults = [Fault("hold", 1000, "variables.npz")]
    script.start()
    wait_for("the upload", proxy.held.is_set, context=script.outputs)
    wait_for("SIGTERM", lambda: "preempted" in (script.folder / "0-1.txt").read_text(), context=script.outputs)
    # then
    with pytest.raises(subprocess.TimeoutExpired):
        script.forks[1].wait(1.0)
    # when: the server answers again
    proxy.faults = []
    proxy.stopped.set()
    # then
    assert [fork.wait(WAIT_SECONDS) for fork in script.forks] == [ExitCode.PREEMPTED] * 2, script.outputs()


@GS_IS_LONG
def test_a_store_that_denies_access_ends_a_script_with_its_exit_code(
    store: str, proxy: FaultyServer, tmp_path: Path
) -> None:
    proxy.faults = [Fault("status", 1000, "PUT", status=403)]
    script = Script(tmp_path / "run", store=store)
    script.start()
    assert script.forks[0].wait(WAIT_SECONDS) == ExitCode.CONFIGURATION, script.outputs()
    assert re.match(rf"checkpoint\.directory: {store}/checkpoints/.*: access is denied", script.message().message)
