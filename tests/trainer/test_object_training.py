"""Gangs that train and evaluate on data and with checkpoints in object stores, as with files."""

import re
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest
from support.faulty_server import Fault, FaultyServer
from support.object_servers import GS_IS_LONG, ObjectServer
from support.polling import WAIT_SECONDS, wait_for
from trainer.numpy_reference import model_variables

from tfdist.contract import ExitCode
from tfdist_trainer.checkpoint import CheckpointReader, FinalRecord
from tfdist_trainer.data.object_cache import DIRECTORY_ENV

if TYPE_CHECKING:
    from trainer.replicas import Launch

pytestmark = pytest.mark.trainer


@pytest.fixture
def in_store(
    object_server: ObjectServer, config: dict[str, Any], data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    """The configuration of `config`, with its files in the server that the environment of replicas names."""
    for name, value in object_server.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv(DIRECTORY_ENV, str(tmp_path / "cache"))
    return stored(object_server, config, data, tmp_path.name)


def stored(object_server: ObjectServer, config: dict[str, Any], data: Path, prefix: str) -> dict[str, Any]:
    """Return `config` with its files in the folder `prefix` of the server."""
    for path in data.glob("*.tfrecord"):
        object_server.put(f"{prefix}/{path.name}", path.read_bytes())
    names = {split: object_server.address(f"{prefix}/{split}-*.tfrecord") for split in ("train", "eval")}
    return config | {"data": names}


def job(directory: Path, **fields: Any) -> dict[str, Any]:
    return {"checkpoint": {"directory": str(directory)}} | fields


@pytest.mark.long
def test_no_worker_leaves_for_sigterm_before_the_chief_has_saved(
    launch: "Launch", config: dict[str, Any], store: str, proxy: FaultyServer
) -> None:
    # given: SIGTERM arrives at one worker, and the store does not answer when the chief saves for it
    settings = {"checkpoint": {"directory": f"{store}/checkpoints", "everySteps": 1_000_000}}
    gang = launch(2, config=config | {"epochs": 1_000_000}, job=settings)
    gang.progress_when(lambda report: (report.step or 0) > 20)
    proxy.faults = [Fault("hold", 1000, "checkpoint-")]
    gang.processes[1].send_signal(signal.SIGTERM)
    wait_for("the upload", proxy.held.is_set, context=lambda: gang.outputs)
    # then
    with pytest.raises(subprocess.TimeoutExpired):
        gang.processes[1].wait(1.0)
    # when: the server answers again
    proxy.faults = []
    proxy.stopped.set()
    # then
    assert gang.wait() == [ExitCode.PREEMPTED] * 2, gang.outputs


def variables(directory: Path) -> Mapping[tuple[int, ...], npt.NDArray[Any]]:
    final = FinalRecord.model_validate_json((directory / "final.json").read_bytes())
    return model_variables(Path(final.path))


@pytest.mark.long
def test_two_workers_train_on_objects_as_on_files(
    launch: "Launch", config: dict[str, Any], in_store: dict[str, Any], tmp_path: Path
) -> None:
    deterministic = {"runtime": {"deterministic": True, "intraOpThreads": 1, "interOpThreads": 1}}
    for name, given in (("files", config), ("objects", in_store)):
        trained = launch(2, config=given | {"epochs": 1}, job=job(tmp_path / name, **deterministic))
        assert trained.wait() == [0, 0], trained.outputs
        assert ("downloaded objects=3" in trained.outputs) == (name == "objects")
    files, objects = variables(tmp_path / "files"), variables(tmp_path / "objects")
    assert files.keys() == objects.keys()
    for shape, values in files.items():
        np.testing.assert_array_equal(values, objects[shape])
    evaluated = launch(config=in_store, job=job(tmp_path / "objects", task="Evaluate"))
    assert evaluated.wait() == [0], evaluated.outputs
    report = evaluated.termination().evaluation
    assert report is not None
    assert report.examples == 101


@pytest.mark.long
def test_the_workers_of_parameter_servers_have_copies_of_their_own(
    launch_roles: "Launch", in_store: dict[str, Any], tmp_path: Path
) -> None:
    gang = launch_roles(
        {"chief": 1, "worker": 1, "ps": 1},
        config=in_store | {"epochs": 1},
        job=job(tmp_path / "trained", strategy="ParameterServer"),
        absent={0},
    )
    wait_for("the copies", lambda: "downloaded objects=3" in gang.output(1), context=lambda: gang.output(1))
    gang.start(0)
    assert gang.wait() == [0, 0, 0], gang.outputs


@GS_IS_LONG
def test_a_bad_record_ends_the_job_with_the_url_of_its_object(
    launch: "Launch", in_store: dict[str, Any], tmp_path: Path
) -> None:
    failed = launch(config=in_store | {"classes": 3, "epochs": 1}, job=job(tmp_path / "trained"))
    assert failed.wait() == [ExitCode.DATA_MALFORMED], failed.outputs
    url = re.escape(in_store["data"]["train"]).replace(r"\*", "[0-2]")
    message = failed.termination().message
    assert re.fullmatch(rf"{url}: record \d+: 'label' is 3, expected 0 to 2; .*", message), message


@GS_IS_LONG
def test_a_training_that_is_killed_in_an_upload_ends_and_is_evaluated_as_one_with_files(
    launch: "Launch",
    config: dict[str, Any],
    data: Path,
    object_server: ObjectServer,
    store: str,
    proxy: FaultyServer,
    tmp_path: Path,
) -> None:
    url = f"{store}/checkpoints"
    given = config | {"epochs": 1}
    in_objects = stored(object_server, given, data, f"{tmp_path.name}/data")
    exact = {"runtime": {"deterministic": True, "intraOpThreads": 1, "interOpThreads": 1}}

    def settings(directory: str, **fields: Any) -> dict[str, Any]:
        return {"checkpoint": {"directory": directory, "everySteps": 5, "keep": 1}} | exact | fields

    # given: it is killed while it uploads the variables of its second checkpoint
    proxy.faults = [Fault("hold", 1000, "variables.data", after_requests=1)]
    killed = launch(config=in_objects, job=settings(url))
    wait_for("the upload", proxy.held.is_set, context=lambda: killed.outputs)
    killed.processes[0].send_signal(signal.SIGKILL)
    killed.processes[0].wait(WAIT_SECONDS)
    proxy.faults = []
    # when: the next attempt, and a training with files
    resumed = launch(config=in_objects, job=settings(url, attempt=1))
    undisturbed = launch(config=given, job=settings(str(tmp_path / "files")))
    assert resumed.wait() == [0], resumed.outputs
    assert undisturbed.wait() == [0], undisturbed.outputs
    assert f"restored step=5 path={url}/checkpoint-000000005" in resumed.outputs
    # then
    records = [CheckpointReader(directory).newest() for directory in (url, str(tmp_path / "files"))]
    # but for the number of the order, which depends on the names of the files
    same = {"sharding_signature": ()}
    (objects, files) = [(each.cursor.model_copy(update=same), each.files) for each in records if each is not None]
    assert objects == files, "also the checksums of all files"
    final = CheckpointReader(url).final("uid-1")
    assert final is not None
    evaluated = launch(config=config, job={"checkpoint": {"directory": url}, "task": "Evaluate"})
    of_files = launch(config=config, job={"checkpoint": {"directory": str(tmp_path / "files")}, "task": "Evaluate"})
    assert (evaluated.wait(), of_files.wait()) == ([0], [0]), evaluated.outputs + of_files.outputs
    reports = [each.termination().evaluation for each in (evaluated, of_files)]
    (stored_report, files_report) = [(each.metrics, each.examples, each.step) for each in reports if each is not None]
    assert stored_report == files_report
    assert reports[0] is not None
    assert reports[0].checkpoint == final.path == f"{url}/checkpoint-{final.step:09d}"
