"""Checkpoints in object stores, without TensorFlow: complete or absent, whatever the server and a kill do."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from support.faulty_server import Fault, FaultyServer
from support.object_servers import BUCKET, GS_IS_LONG, ObjectServer

from tfdist.contract import ExitCode, Role
from tfdist_trainer import errors, writer_heartbeat
from tfdist_trainer.checkpoint import CheckpointReader, CheckpointWriter, DataCursor, read_record
from tfdist_trainer.errors import CheckpointUnwritableError, ConfigurationError, StorageError
from tfdist_trainer.evaluation_store import BestPolicy, EvaluationResult, EvaluationStore, early_stop_reason
from tfdist_trainer.fence import Fence, Writer
from tfdist_trainer.initial_checkpoint import existing_checkpoint
from tfdist_trainer.storage.locations import open_folder
from tfdist_trainer.storage.object_folder import ObjectFolder
from tfdist_trainer.storage.object_store import Bucket
from tfdist_trainer.storage.object_urls import split
from tfdist_trainer.stored_checkpoint import stored_checkpoint
from tfdist_trainer.writer_heartbeat import WriterHeartbeat

TIME = "2026-01-02T03:04:05.678Z"
VALUES = bytes(range(256)) * 4000
RETRY = {
    "max_retries": 2,
    "retry_timeout": timedelta(seconds=60),
    "backoff": {"init_backoff": timedelta(milliseconds=5)},
}


@pytest.fixture
def url(
    proxy: FaultyServer,  # noqa: ARG001  it sets the environment
    object_server: ObjectServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> str:
    """A checkpoint directory of the test; heartbeats stand still, because their threads would outlive the server."""
    monkeypatch.setattr(writer_heartbeat, "PERIOD_SECONDS", 1e6)
    return object_server.address(f"{tmp_path.name}/checkpoints")


def by(attempt: int = 0, name: str = "first", host: str = "worker-0") -> Writer:
    return Writer(
        job=f"uid-of-{name}", name=name, namespace="ml", role=Role.WORKER, index=0, attempt=attempt, host=host
    )


def save(prefix: str, values: bytes = VALUES) -> None:
    Path(f"{prefix}.index").write_bytes(b"index")
    Path(f"{prefix}.data-00000-of-00001").write_bytes(values)


def store(directory: str | ObjectFolder, *, keep: int = 3, writer: Writer | None = None) -> CheckpointWriter:
    made = CheckpointWriter(directory, keep=keep, writer=writer or by())
    made.claim()
    return made


def write(writer: CheckpointWriter, *steps: int) -> None:
    for step in steps:
        writer.write(DataCursor(step=step), TIME, save)


def ended(directory: str, name: str = "first") -> None:
    """The job has ended, as far as a reader can know."""
    WriterHeartbeat(directory, f"uid-of-{name}").stop()


def newest(directory: str | ObjectFolder) -> int | None:
    """Return the step of the newest checkpoint, whose files are whole."""
    reader = CheckpointReader(directory)
    record = reader.newest()
    if record is None:
        return None
    path = reader.path_of(record.cursor.step).path()
    assert (path / "variables.data-00000-of-00001").read_bytes() == VALUES
    return record.cursor.step


def objects(directory: str) -> list[str]:
    """Return the keys of all objects below the checkpoint directory, with `V` for the name of a version."""
    bucket, key = split(directory)
    found = [each.key.removeprefix(f"{key}/").split("/") for each in Bucket(bucket).tree(f"{key}/")]
    return sorted("/".join("V" if part.startswith("0-worker-0-") else part for part in parts) for parts in found)


def files_of(step: int) -> list[str]:
    names = ["V/variables.data-00000-of-00001", "V/variables.index", "checkpoint.json"]
    return [f"checkpoint-{step:09d}/{name}" for name in names]


CLAIM = ["fence.json", "writer-uid-of-first.heartbeat"]


def test_the_newest_is_found_and_older_ones_than_wanted_are_removed_except_for_the_best(url: str) -> None:
    writer = store(url, keep=2)
    write(writer, 9)
    best = EvaluationResult(step=9, checkpoint=f"{url}/checkpoint-000000009", metrics={"accuracy": 0.9}, examples=1,
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
def test_an_earlier_attempt_cannot_write_any_more(url: str) -> None:
    old = store(url)
    write(old, 1)
    store(url, writer=by(attempt=1, host="worker-0-new"))
    with pytest.raises(CheckpointUnwritableError, match=r"belongs to attempt 1 .*this is attempt 0"):
        write(old, 2)
    assert newest(url) == 1


@GS_IS_LONG
def test_a_claim_during_an_upload_is_respected_and_its_objects_are_removed(url: str) -> None:
    old = store(url)

    def overtaken(prefix: str) -> None:
        save(prefix)
        Fence(url, by(attempt=1)).claim()

    with pytest.raises(CheckpointUnwritableError):
        old.write(DataCursor(step=2), TIME, overtaken)
    assert newest(url) is None
    store(url, writer=by(attempt=2))
    assert objects(url) == CLAIM


def test_of_two_claims_at_the_same_time_one_holds(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other attempt claims when this one has read that there is no claim."""
    swap = ObjectFolder.swap_text

    def later(folder: ObjectFolder, name: str, text: str, expected: str | None) -> bool:
        monkeypatch.setattr(ObjectFolder, "swap_text", swap)
        Fence(url, by(attempt=1)).claim()
        return swap(folder, name, text, expected)

    monkeypatch.setattr(ObjectFolder, "swap_text", later)
    with pytest.raises(CheckpointUnwritableError, match=r"belongs to attempt 1"):
        Fence(url, by(attempt=0)).claim()


@GS_IS_LONG
def test_a_folder_is_replaced_with_all_that_is_below_it(url: str) -> None:
    folder = open_folder(url, field="training.export.directory")
    for names in (["model.keras", "saved_model/saved_model.pb", "saved_model/variables/1"], ["model.keras"]):
        with folder.replaced("final") as path:
            for name in names:
                (path / name).parent.mkdir(parents=True, exist_ok=True)
                (path / name).write_text("x")
        assert objects(url) == [f"final/{name}" for name in names]


class Running:
    """Job `first` runs: its counter changes between two polls, `beats` times."""

    def __init__(self, directory: str, beats: int) -> None:
        self.heartbeat = WriterHeartbeat(directory, "uid-of-first")
        self.beats, self.polls = beats, 0

    def pause(self, _: float) -> None:
        self.polls += 1
        if self.polls <= self.beats:
            self.heartbeat.beat()


@GS_IS_LONG
def test_a_directory_whose_writer_runs_is_rejected_and_one_that_was_killed_hands_it_over(url: str) -> None:
    Fence(url, by()).claim()
    with pytest.raises(ConfigurationError) as caught:
        Fence(url, by(name="second"), Running(url, beats=1000).pause).claim()
    assert str(caught.value).startswith(f"checkpoint.directory: {url} is written by attempt 0 of job ml/first")
    late = Running(url, beats=3)
    Fence(url, by(name="second"), late.pause).claim()
    assert objects(url) == ["fence.json", "writer-uid-of-second.heartbeat"]
    with pytest.raises(FileNotFoundError):
        late.heartbeat.beat()


@GS_IS_LONG
def test_checkpoints_of_others_that_are_further_are_set_aside_and_can_be_named(url: str, tmp_path: Path) -> None:
    write(store(url, writer=by(name="old")), 10, 20)
    ended(url, "old")
    new = store(url)
    new.set_aside(above=10)
    assert newest(url) == 10
    aside = f"{url}/set-aside-by-uid-of-first"
    assert newest(aside) == 20, "nothing is lost"
    checkpoint, record = existing_checkpoint(f"{aside}/checkpoint-000000020")
    assert (str(checkpoint), record.cursor.step) == (f"{aside}/checkpoint-000000020", 20)
    write(store(str(tmp_path / "files")), 5)
    assert newest(str(tmp_path / "files")) == 5, "the same writer saves to files"


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
def test_a_claim_removes_nothing_that_others_have_stored_there(
    url: str, object_server: ObjectServer, tmp_path: Path
) -> None:
    keys = ["checkpoint-000000500/model/weights.bin", "checkpoint-5/trainer.json", "notes.txt"]
    for key in keys:
        object_server.put(f"{tmp_path.name}/checkpoints/{key}", b"of another program")
    store(url)
    assert objects(url) == sorted([*CLAIM, *keys])


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
