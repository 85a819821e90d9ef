"""A launcher's report of its gang: bounded however large the gang is and however much has failed."""

import json

import pytest

from tfdist.contract import CheckpointSettings, LaunchMemberRange, LeaderSettings, Phase, ReplicaJob, Role
from tfdist.contract_reports import (
    MAX_REPORT_BYTES,
    MAX_REPORTED_FAILURES,
    MAX_REPORTED_MEMBERS,
    MAX_WAITING_FOR,
    CheckpointReport,
    ProgressReport,
)
from tfdist_launch.failure_history import FailureHistory
from tfdist_launch.failures import ProcessFailure
from tfdist_launch.leader import Leader
from tfdist_launch.messages import Heartbeat
from tfdist_launch.report import gang_report, replica_report
from tfdist_launch.restart_policy import RestartPolicy
from tfdist_launch.slots import GangPhase, ProcessState
from tfdist_trainer.report_server import progress_text


def leader_of(number: int) -> Leader:
    """Return the leader of a training gang."""
    settings = LeaderSettings(member_ranges=[LaunchMemberRange(role=Role.WORKER, index=0, count=number)])
    history = FailureHistory("0-18c", lambda: "2030-01-02T03:04:05Z")
    leader = Leader(
        settings,
        RestartPolicy.of(settings, "uid"),
        history,
        independent=frozenset(),
        standby=False,
        saving_seconds=25.0,
    )
    leader.state = GangPhase.RUNNING
    for slot in leader.slots:
        slot.link, slot.process = slot.member.index, ProcessState.RUNNING
        slot.heartbeat = Heartbeat(alive=True, report=training(slot.member.index, step=1000))
    return leader


def training(index: int, **fields: int) -> ProgressReport:
    return ProgressReport(role=Role.WORKER, index=index, attempt=0, phase=Phase.TRAINING, **fields)


def sent(leader: Leader) -> tuple[int, ProgressReport]:
    """Return the length of the leader's report, and what the controller reads of it."""
    text = progress_text(training(0, step=1000).model_copy(update={"gang": gang_report(leader, 0)}))
    return len(text), ProgressReport.model_validate_json(text)


CHECKPOINTS = CheckpointSettings(directory="/ckpt/a")
SAVED = CheckpointReport(step=400, path="/ckpt/a/checkpoint-400", time="2030-01-02T03:04:05Z")


@pytest.mark.parametrize(
    ("checkpoint", "saved", "step"),
    [(None, None, None), (CHECKPOINTS, None, 500), (None, SAVED, 500)],
    ids=["without checkpoints", "with checkpoints", "the script has reported one"],
)
def test_a_restart_in_place_shows_the_former_progress_only_if_a_checkpoint_restores_it(
    checkpoint: CheckpointSettings | None, saved: CheckpointReport | None, step: int | None
) -> None:
    job = ReplicaJob(
        name="a", namespace="team", uid="u", strategy="MultiWorkerMirrored", role=Role.WORKER, index=0,
        replicas={"worker": 2}, checkpoint=checkpoint,
    )  # fmt: skip
    former = training(0, step=500).model_copy(update={"last_checkpoint": saved, "metrics": {"loss": 0.5}})
    report = replica_report(job, 1, None, former)
    assert (report.phase, report.step, report.round) == (Phase.STARTING, step, 1)
    assert bool(report.metrics) is (step is not None)


@pytest.mark.parametrize("members", [2, MAX_REPORTED_MEMBERS, 10_000])
def test_a_gang_of_any_size_is_counted_and_its_report_is_small(members: int) -> None:
    size, report = sent(leader_of(members))
    assert report.gang is not None
    assert (report.gang.size, report.gang.alive) == (members, members)
    assert report.gang.phases == {Phase.TRAINING: members}
    assert len(report.gang.members) == min(members, MAX_REPORTED_MEMBERS)
    assert size < 8_000


def test_the_report_of_a_large_gang_describes_the_replicas_that_are_not_alive_and_the_slowest() -> None:
    leader = leader_of(10_000)
    leader.slots[7].heartbeat = Heartbeat(alive=False, report=training(7, step=1000))
    leader.slots[8].link = None
    leader.slots[9_000].heartbeat = Heartbeat(alive=True, report=training(9_000, step=990))
    gang = sent(leader)[1].gang
    assert gang is not None
    assert gang.alive == 9_998
    described = {member.index: member for member in gang.members}
    assert (described[7].alive, described[8].alive, described[9_000].step) == (False, False, 990)
    assert [member.index for member in gang.members] == sorted(described)


def test_the_replicas_that_a_large_gang_waits_for_are_counted() -> None:
    leader = leader_of(10_000)
    leader.state = GangPhase.WAITING
    gang = sent(leader)[1].gang
    assert gang is not None
    assert len(gang.waiting_for) == MAX_WAITING_FOR
    assert gang.waiting_for[-1] == f"{10_000 - MAX_WAITING_FOR + 1} more"


def test_failures_with_long_messages_and_stacks_fit_the_newest_of_them_last() -> None:
    leader = leader_of(2)
    for number in range(2 * MAX_REPORTED_FAILURES):
        message = json.dumps({"reason": "x", "message": "\u6f22" * 4000})
        ended = ProcessFailure(role=Role.WORKER, index=1, exit_code=1, message=message)
        leader.history.record(ended, "Crash", number, 5, root_cause=True, stacks="\u6f22" * 50_000)
    size, report = sent(leader)
    assert report.gang is not None
    assert size <= MAX_REPORT_BYTES
    assert report.gang.failures[-1].round == 2 * MAX_REPORTED_FAILURES - 1
    assert len(report.gang.failures) >= 5


def test_a_program_that_diverges_is_still_reported() -> None:
    nan = float("nan")
    report = training(0, step=7).model_copy(update={"metrics": {"loss": nan, "accuracy": 0.5}, "step_time_millis": nan})
    read = ProgressReport.model_validate_json(progress_text(report))
    assert (read.step, read.metrics, read.step_time_millis) == (7, {"accuracy": 0.5}, None)
    json.loads(progress_text(report), parse_constant=pytest.fail)
