"""Jobs of this machine as their client sees them: run directories that a test writes, without processes."""

import json
import pathlib
from typing import Any

import pytest
from support.factories import manifest

from tfdist import Client
from tfdist.api.status import JobPhase
from tfdist.client.errors import NotFound, NotPossible
from tfdist.local import background


@pytest.fixture
def client(tmp_path: pathlib.Path) -> Client:
    """A client of two runs that have ended: `fashion` succeeded, `prices` was suspended at step 5."""
    write(tmp_path, "fashion", {"phase": "Succeeded"}, team="vision")
    write(tmp_path, "prices", {"phase": "Suspended", "progress": {"step": 5}})
    return Client(local=tmp_path)


def write(folder: pathlib.Path, name: str, status: dict[str, Any], **labels: str) -> None:
    """Write the run directory of a job."""
    job = manifest(name)
    job["metadata"]["labels"] = labels
    (folder / name).mkdir()
    (folder / name / background.JOB).write_text(json.dumps({"job": job, "configMaps": []}))
    (folder / name / "status.json").write_text(json.dumps({"observedGeneration": 1} | status))


def test_runs_are_listed_by_name_and_by_label(client: Client) -> None:
    assert [job.name for job in client.list()] == ["fashion", "prices"]
    assert [job.name for job in client.list(selector="team=vision")] == ["fashion"]
    assert client.jobs.similar("fashon") == "fashion"


def test_a_handle_reads_and_watches_the_run_of_its_name(client: Client) -> None:
    handle = client.attach("fashion")

    assert handle.wait().phase is JobPhase.SUCCEEDED
    assert [job.name for job in handle.watch(seconds=0)] == ["fashion"]


def test_a_run_that_has_finished_is_neither_suspended_nor_resumed(client: Client) -> None:
    handle = client.attach("fashion")

    for change, done in ((handle.suspend, "suspended"), (handle.resume, "resumed")):
        with pytest.raises(NotPossible, match=rf'^job "fashion" cannot be {done}: it has finished \(Succeeded\)$'):
            change()


def test_the_suspension_of_a_run_without_checkpoints_warns_that_it_begins_again(client: Client) -> None:
    with pytest.warns(UserWarning, match="prices has no spec.checkpoint: it begins again at step 0, and loses 5 steps"):
        client.attach("prices").suspend()


def test_what_needs_a_cluster_is_one_line(client: Client) -> None:
    handle = client.attach("prices")
    calls = (
        handle.restart,
        handle.events,
        handle.follow_events,
        lambda: handle.scale(2),
        lambda: client.jobs.patch("prices", {}),
        lambda: client.in_namespace("team"),
    )

    for call in calls:
        with pytest.raises(NotPossible, match=r"^[^\n]+$"):
            call()


def test_a_run_that_is_deleted_by_its_name_or_handle_is_not_found(client: Client) -> None:
    client.jobs.delete("fashion")
    handle = client.attach("prices")
    handle.delete()
    handle.wait_deleted(timeout=0)

    assert client.list() == []
    with pytest.raises(NotFound, match=r'^job "fashion" not found in '):
        client.get("fashion")
