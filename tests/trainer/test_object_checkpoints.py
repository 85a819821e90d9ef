"""Checkpoints in object stores, without TensorFlow: complete or absent, whatever the server and a kill do."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from support.checkpoint_writers import (
    CLAIM,
    TIME,
    VALUES,
    files_of,
    newest,
    objects,
    save,
    store,
    write,
)
from support.faulty_server import Fault, FaultyServer
from support.object_servers import BUCKET, GS_IS_LONG, ObjectServer

from tfdist.contract import ExitCode
from tfdist_trainer import errors
from tfdist_trainer.checkpoint import CheckpointReader, DataCursor, read_record
from tfdist_trainer.errors import ConfigurationError, StorageError
from tfdist_trainer.evaluation_store import BestPolicy, EvaluationStore, StoredEvaluation, early_stop_reason
from tfdist_trainer.storage.locations import open_folder
from tfdist_trainer.storage.object_folder import ObjectFolder
from tfdist_trainer.storage.object_store import Bucket
from tfdist_trainer.storage.object_urls import split
from tfdist_trainer.stored_checkpoint import stored_checkpoint

RETRY = {
    "max_retries": 2,
    "retry_timeout": timedelta(seconds=60),
    "backoff": {"init_backoff": timedelta(milliseconds=5)},
}


def test_the_newest_is_found_and_older_ones_than_wanted_are_removed_except_for_the_best(url: str) -> None:
    writer = store(url, keep=2)
    write(writer, 9)
    best = StoredEvaluation(step=9, checkpoint=f"{url}/checkpoint-000000009", metrics={"accuracy": 0.9}, examples=1,
                            time=TIME, job="uid-of-first", saved_at=TIME)  # fmt: skip
    evaluations = EvaluationStore(url, "uid-of-first", tag="evaluator-0")
    evaluations.record(best, {"confusion_matrix": {"matrix": [[1.0]]}})
    evaluations.update_best(BestPolicy(), evaluations.results(), lambda _: True)
    write(writer, 10, 11, 100)
    report = writer.write(DataCursor(step=101), TIME, save)
    assert report.path == f"{url}/checkpoint-000000101"
    assert newest(url) == 101
    results = ["best.json", "evaluation/9-details.json", "evaluation/9.json"]
    assert objects(url) == sorted([*results, *CLAIM, *files_of(9), *files_of(100), *files_of(101)])
    writer.finish(report, total_steps=101)
    final = CheckpointReader(url).final("uid-of-first")
    assert final is not None
    assert final.path == report.path


@GS_IS_LONG
@pytest.mark.parametrize("replaces", [True, pytest.param(False, marks=pytest.mark.long)])
def test_a_kill_between_any_two_requests_of_a_write_loses_nothing(
    replaces: bool, url: str, proxy: FaultyServer
) -> None:
    """The write replaces the only checkpoint, or removes it for a later one."""
    write(store(url, keep=1), 1)
    for number in range(100):
        writer, step = store(url, keep=1), newest(url)
        assert step is not None
        complete = [name for found in CheckpointReader(url).records() for name in files_of(found.cursor.step)]
        assert objects(url) == sorted([*CLAIM, *complete]), "a claim removes what a killed write has left"
        proxy.faults = [Fault("status", 1000, status=403, after_requests=number)]
        try:
            write(writer, step if replaces else step + 1)
            break
        except ConfigurationError:
            pass
        finally:
            proxy.faults = []
        assert newest(url) in {step, step + (not replaces)}
    else:
        raise AssertionError("no write has ended")
    assert number > 8, "each request has failed once"


@GS_IS_LONG
def test_a_read_that_fails_is_no_damage_which_would_restart_training_from_an_earlier_step(
    url: str, proxy: FaultyServer
) -> None:
    write(store(url), 1, 2)
    bucket, key = split(url)
    folder = ObjectFolder(Bucket(bucket, retry=RETRY, writes=True), key)
    for target in ("checkpoint-000000002/checkpoint.json", "variables.data"):
        proxy.faults = [Fault("status", 1000, target)]
        with pytest.raises(StorageError, match=r"checkpoint\.directory: .*HTTP 503"):
            newest(folder)
    proxy.faults = []
    assert newest(folder) == 2


FAULTS = {
    "503 three times": Fault("status", 3, "PUT"),
    "uploads that are cut off": Fault("cut upload", 2, "PUT"),
    "the lost answer to the claim": Fault("lose answer", 1, "fence.json"),
    "the lost answer to the record": Fault("lose answer", 1, "checkpoint.json", after_requests=2),
    "downloads that are cut off": Fault("cut", 3, "GET", after_bytes=100),
}


LONG_FAULTS = {"the lost answer to the claim"}
"""Second ones of their kind."""


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(fault, id=name, marks=[pytest.mark.long] if name in LONG_FAULTS else [])
        for name, fault in FAULTS.items()
    ],
)
@GS_IS_LONG
def test_a_checkpoint_is_written_and_read_in_spite_of(fault: Fault, url: str, proxy: FaultyServer) -> None:
    proxy.faults = [Fault(**vars(fault))]
    write(store(url), 1, 2)
    assert newest(url) == 2
    assert proxy.faults[0].times == 0


@pytest.mark.parametrize(
    "damage",
    ["flip", "no record", *(pytest.param(each, marks=pytest.mark.long) for each in ("cut", "missing", "torn record"))],
)
@GS_IS_LONG
def test_a_damaged_checkpoint_is_reported_with_its_url_and_skipped(
    damage: str, url: str, object_server: ObjectServer, capsys: pytest.CaptureFixture[str]
) -> None:
    write(store(url), 1, 2)
    bucket, key = split(url)
    found = {each.key.rpartition("/")[2]: each.key for each in Bucket(bucket).tree(f"{key}/checkpoint-000000002/")}
    values, record = found["variables.data-00000-of-00001"], found["checkpoint.json"]
    actions: dict[str, Callable[[], object]] = {
        "flip": lambda: object_server.put(values, b"x" + VALUES[1:]),
        "cut": lambda: object_server.put(values, VALUES[:10]),
        "missing": lambda: object_server.delete(values),
        "no record": lambda: object_server.delete(record),
        "torn record": lambda: object_server.put(record, b'{"files": {"vari'),
    }
    actions[damage]()
    assert newest(url) == 1
    assert f"{url}/checkpoint-000000002" in capsys.readouterr().out
    with pytest.raises(StorageError, match="checkpoint-000000002"):
        read_record(f"{url}/checkpoint-000000002")


@GS_IS_LONG
def test_a_folder_is_replaced_with_all_that_is_below_it(url: str) -> None:
    folder = open_folder(url, field="training.export.directory")
    for names in (["model.keras", "saved_model/saved_model.pb", "saved_model/variables/1"], ["model.keras"]):
        with folder.replace_folder("final", "saved_model/saved_model.pb", lambda: None) as path:
            for name in names:
                (path / name).parent.mkdir(parents=True, exist_ok=True)
                (path / name).write_text("x")
        assert objects(url) == [f"final/{name}" for name in names]


@GS_IS_LONG
def test_a_local_copy_is_deleted_when_nothing_uses_its_checkpoint_any_more(url: str) -> None:
    write(store(url), 1)
    checkpoint = stored_checkpoint(f"{url}/checkpoint-000000001")
    path = checkpoint.path()
    assert sorted(each.name for each in path.iterdir()) == ["variables.data-00000-of-00001", "variables.index"]
    del checkpoint
    assert not path.exists()


@GS_IS_LONG
def test_a_record_cannot_name_a_file_elsewhere(url: str, object_server: ObjectServer) -> None:
    write(store(url), 1)
    _, key = split(url)
    folder = open_folder(f"{url}/checkpoint-000000001")
    record = folder.read_text("checkpoint.json")
    assert record is not None
    object_server.put(
        f"{key}/checkpoint-000000001/checkpoint.json", record.replace("variables.index", "../../escaped").encode()
    )
    assert newest(url) is None


@GS_IS_LONG
def test_the_chief_reads_the_request_of_the_evaluator_to_stop(url: str, proxy: FaultyServer) -> None:
    evaluations = EvaluationStore(url, "uid-1", tag="evaluator-0")
    evaluations.begin(20)
    evaluations.request_stop(20, "no improvement")
    evaluations.end()
    assert objects(url) == ["stop.json"]
    assert early_stop_reason(url, "uid-1", 30) == "no improvement"
    bucket, key = split(url)
    proxy.faults = [Fault("status", 1000)]
    failing = ObjectFolder(Bucket(bucket, retry=RETRY, writes=True), key)
    assert early_stop_reason(failing, "uid-1", 30) == "", "a training does not end for it"


@GS_IS_LONG
def test_a_store_that_denies_writing_is_an_error_of_the_configuration(url: str, proxy: FaultyServer) -> None:
    proxy.faults = [Fault("status", 1, "PUT", status=403)]
    message = rf"^checkpoint\.directory: {url}/.*: access is denied: HTTP 403; .* it needs .*"
    with pytest.raises(ConfigurationError, match=message) as caught:
        store(url)
    assert errors.classify(caught.value).exit_code is ExitCode.CONFIGURATION


@GS_IS_LONG
def test_a_bucket_that_does_not_exist_is_an_error_of_the_configuration(url: str) -> None:
    folder = open_folder(url.replace(BUCKET, "no-such-bucket"))
    message = r"^checkpoint\.directory: ..://no-such-bucket: there is no such bucket; check its name and the server, "
    with pytest.raises(ConfigurationError, match=message):
        folder.write_text("fence.json", "{}")


@GS_IS_LONG
def test_a_server_that_fails_until_the_last_retry_is_a_failure_of_storage(url: str, proxy: FaultyServer) -> None:
    bucket, key = split(url)
    writer = store(ObjectFolder(Bucket(bucket, retry=RETRY, writes=True), key))
    write(writer, 1)
    proxy.faults = [Fault("status", 1000, "PUT")]
    with pytest.raises(StorageError, match=rf"^checkpoint\.directory: {url}/.*after 2 retries: HTTP 503") as caught:
        write(writer, 2)
    assert errors.classify(caught.value).exit_code is ExitCode.STORAGE
    assert newest(url) == 1
    proxy.faults = []
    write(writer, 3)
    assert newest(url) == 3


@GS_IS_LONG
def test_a_full_temporary_directory_is_named(url: str) -> None:
    writer = store(url)

    def full(_: str) -> Any:
        raise OSError(28, "No space left on device")

    with pytest.raises(StorageError, match=r"cannot write /.*tfdist-upload.*No space left on device; mount a larger"):
        writer.write(DataCursor(step=1), TIME, full)
