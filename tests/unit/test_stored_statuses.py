"""Statuses that an earlier version has stored: an upgrade or a downgrade while jobs run loses nothing.

`stored_statuses.json` has statuses that the planner of commit a549f36 wrote in the unit tests of that commit; together
they have each field that these tests store.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from support import statuses
from support.factories import NOW, planned, view
from support.statuses import STATED

from tfdist.observed.gang_record import stored_record
from tfdist.outcome import read_status, read_status_json
from tfdist.render.gang import GangName
from tfdist.status.phase import is_terminal, phase_of

STORED: list[dict[str, Any]] = json.loads(Path(statuses.__file__).with_name("stored_statuses.json").read_bytes())
BOTH = "worker-0:R worker-1:R"


@pytest.mark.parametrize("number", range(len(STORED)))
def test_a_status_of_an_earlier_version_is_read_whole(number: int) -> None:
    assert read_status(STORED[number]).to_json() == STORED[number]
    assert read_status_json(json.dumps(STORED[number]).encode()) == read_status(STORED[number])


@pytest.mark.parametrize("number", range(len(STORED)))
def test_the_phase_of_an_earlier_version_is_the_one_that_follows_here(number: int) -> None:
    assert phase_of(read_status(STORED[number])) == STORED[number]["phase"]


def test_a_value_of_a_newer_version_costs_only_itself() -> None:
    running = {"type": "Running", "status": "True", "reason": "AllReplicasRunning"} | STATED
    newer = {
        "phase": "Hibernating",
        "conditions": [running, running | {"type": "Hibernating"}],
        "gangs": {"training": {"attempt": 3, "counted": 2, "avoided": 5, "mood": "good"}},
        "progress": {"step": 5, "percent": 250, "metrics": {"loss": 0.5}},
        "replicas": {"worker": {"desired": 2}},
    }
    status = read_status(newer)
    assert read_status_json(json.dumps(newer).encode()) == status
    record = stored_record(status, GangName.TRAINING)
    assert record is not None
    assert (record.attempt, record.counted, record.excluded_nodes) == (3, 2, ())
    assert status.progress is not None
    assert (status.progress.step, status.progress.percent, status.progress.metrics) == (5, None, {"loss": 0.5})
    assert [each.type for each in status.conditions or ()] == ["Running"]
    assert (status.phase, status.replicas) == (None, {})


def test_a_finished_job_stays_finished_if_a_part_of_its_status_cannot_be_read() -> None:
    ended = {"type": "Succeeded", "status": "True", "reason": "Succeeded"} | STATED
    assert is_terminal(read_status({"conditions": [{"type": "Succeeded"}, ended], "completionTime": 5}))


def test_an_idle_job_is_not_written_because_of_the_version_that_stored_its_status() -> None:
    stored = planned(BOTH, planned("worker-0:P worker-1:P").status).status
    assert stored is not None
    assert planned(BOTH, json.loads(json.dumps(stored)), now=NOW).status is None
    assert view(BOTH, stored).status.to_json() == stored
