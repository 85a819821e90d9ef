"""Claims of checkpoint directories in object stores: of attempts of a job, and of jobs one after the other."""

from pathlib import Path

import pytest
from support.checkpoint_writers import CLAIM, TIME, Running, by, ended, newest, objects, save, store, write
from support.object_servers import GS_IS_LONG, ObjectServer

from tfdist_trainer.checkpoint import DataCursor
from tfdist_trainer.errors import CheckpointUnwritableError, ConfigurationError
from tfdist_trainer.fence import Fence
from tfdist_trainer.initial_checkpoint import existing_checkpoint
from tfdist_trainer.storage.object_folder import ObjectFolder


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
def test_a_claim_removes_nothing_that_others_have_stored_there(
    url: str, object_server: ObjectServer, tmp_path: Path
) -> None:
    keys = ["checkpoint-000000500/model/weights.bin", "checkpoint-5/trainer.json", "notes.txt"]
    for key in keys:
        object_server.put(f"{tmp_path.name}/checkpoints/{key}", b"of another program")
    store(url)
    assert objects(url) == sorted([*CLAIM, *keys])


@GS_IS_LONG
def test_two_clusters_that_share_a_bucket_do_not_take_a_directory_of_one_name_from_each_other(url: str) -> None:
    first = Fence(url, by(cluster="east"))
    first.claim()
    with pytest.raises(ConfigurationError, match="which is running in another cluster"):
        Fence(url, by(uid="x", cluster="west"), Running(url, beats=1000).pause).claim()
    first.check()
    Fence(url, by(uid="after-deletion", cluster="east"), pause=lambda _: pytest.fail("nothing to wait for")).claim()
