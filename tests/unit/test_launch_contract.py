"""Launchers read the settings that the controller writes, and the controller reads the reports of launchers."""

import json
from typing import Any

import pytest
from support.factories import CHECKPOINT, Lifecycle, created, event_reasons, manifest

from tfdist.contract import JOB_ENV, LeaderSettings, Phase, Role
from tfdist.contract_reports import ProgressReport
from tfdist.observed.job_view import TimestampedReport
from tfdist.render.gang import training_gang
from tfdist.render.installation import Installation
from tfdist.render.pod import Attempt, PodRenderer
from tfdist.validation import parse
from tfdist_launch.failure_history import FailureHistory
from tfdist_launch.leader import Leader
from tfdist_launch.messages import ExitResult, Hello, Ping, ProcessExited, ProcessStopped, decode
from tfdist_launch.report import gang_report
from tfdist_launch.restart_policy import RestartPolicy
from tfdist_launch.settings import LauncherSettings, read_settings
from tfdist_trainer.errors import UsageError
from tfdist_trainer.fence import writer_of

BOTH = "worker-0:R worker-1:R"
COMMAND = ["tfdist-launch", "python", "train.py"]
TIME = "2030-01-02T03:04:05Z"


def place(index: int, **spec: Any) -> LauncherSettings:
    """Return the settings that the launcher of a worker reads from the environment of its pod."""
    return place_of(Installation("trainer:1"), index, **spec)


def place_of(installation: Installation, index: int, **spec: Any) -> LauncherSettings:
    """Return the settings of a worker's launcher in a job that the controller of `installation` runs."""
    job = parse(manifest(command=COMMAND, **spec))
    gang = training_gang(job)
    made = PodRenderer(job, gang, installation).pod(gang.members[index], Attempt(0, 0))
    variables = made["spec"]["containers"][0]["env"]
    return read_settings({v["name"]: v["value"] for v in variables if v["name"] == JOB_ENV}, "key")


def leads(place: LauncherSettings) -> LeaderSettings:
    """Return the settings of the leading launcher."""
    assert place.launch.gang is not None
    return place.launch.gang


class Launchers:
    """The leader of two launchers whose training processes run; the launchers' tests cover the rendezvous."""

    def __init__(self, **spec: Any) -> None:
        self._place = place(0, **spec)
        launch, uid = leads(self._place), self._place.job.uid
        self.leader = Leader(
            launch,
            RestartPolicy.of(launch, uid),
            FailureHistory("0-1a", lambda: TIME),
            independent=frozenset(),
            standby=False,
            saving_seconds=25.0,
        )
        for link in (0, 1):
            self.leader.member_connected(
                link, Hello(job=uid, rank=link, attempt=0, started_at=0.0, highest_round=-1), 0.0
            )

    def fail(self, rank: int, code: int) -> None:
        """End the training process of a rank, which stops that of the other."""
        number = self.leader.round
        outcome = ExitResult(exit_code=code, termination="out of luck")
        self.leader.handle_message(rank, ProcessExited(round=number, outcome=outcome), 1.0)
        self.leader.handle_message(1 - rank, ProcessStopped(round=number), 1.0)

    def report(self) -> TimestampedReport:
        """Return the leader's report as the controller reads it."""
        report = ProgressReport(
            role=Role.WORKER, index=0, attempt=0, phase=Phase.TRAINING, gang=gang_report(self.leader, 1)
        )
        return TimestampedReport(ProgressReport.model_validate_json(report.to_json()), TIME)


def test_each_launcher_reads_its_rank_and_the_limits_from_the_environment_of_its_pod() -> None:
    rules = [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [3]}}]
    places = [place(i, runPolicy={"backoffLimit": 7}, failurePolicy={"rules": rules}) for i in range(2)]
    assert [(p.launch.rank, p.launch.gang is not None) for p in places] == [(0, True), (1, False)]
    limits = RestartPolicy.of(leads(places[0]), "1")
    assert limits.settings.backoff_limit == 7
    assert limits.failure_policy is not None


def test_fields_of_a_newer_controller_and_of_newer_launchers_are_ignored() -> None:
    variable = place(1).job.model_dump(mode="json", by_alias=True)
    newer = variable | {"mood": "good", "launch": variable["launch"] | {"mood": "good"}}
    assert read_settings({JOB_ENV: json.dumps(newer)}, "key") == place(1)
    assert decode(b'{"kind": "ping", "mood": "good"}') == Ping()


def test_settings_of_another_version_are_an_error_that_names_the_field() -> None:
    """Given `TFDIST_JOB` of a commit before 0.1.0, when a launcher reads it, then it ends with the missing field."""
    variable = place(1).job.model_dump(mode="json", by_alias=True)
    variable["launch"]["seat"] = variable["launch"].pop("rank")
    with pytest.raises(UsageError, match=r"TFDIST_JOB: launch\.rank: Field required"):
        read_settings({JOB_ENV: json.dumps(variable)}, "key")


def test_launchers_keep_standby_processes_if_the_job_enables_them() -> None:
    spec: dict[str, Any] = {"runPolicy": {"standby": True}, "checkpoint": CHECKPOINT}
    assert [place(i).launch.standby for i in range(2)] == [None, None]
    job = parse(manifest(**spec))
    gang = training_gang(job)
    for member in gang.members:
        made = PodRenderer(job, gang, Installation("trainer:1")).pod(member, Attempt(0, 0))
        assert '"standby":true' in next(
            v["value"] for v in made["spec"]["containers"][0]["env"] if v["name"] == JOB_ENV
        )


@pytest.mark.parametrize("cluster", [None, "0123456789abcdef"])
def test_the_record_of_a_writer_has_the_cluster_that_the_controller_knows(cluster: str | None) -> None:
    job = place_of(Installation("trainer:1", cluster=cluster), 0).job
    assert writer_of(job, round_number=0).cluster == cluster


@pytest.mark.parametrize(("period", "seconds"), [(None, 25), (120, 115), (5, 1), (0, 1)])
def test_replicas_may_save_for_the_grace_period_of_their_pod_but_its_last_seconds(
    period: int | None, seconds: int
) -> None:
    spec = {} if period is None else {"template": {"spec": {"terminationGracePeriodSeconds": period}}}
    assert place(1, **spec).job.saving_seconds == seconds


@pytest.mark.parametrize(
    ("limits", "gpus"),
    [(None, None), ({"nvidia.com/gpu": 2}, 2), ({"nvidia.com/gpu": "4"}, 4), ({"nvidia.com/mig-1g.5gb": 1}, None)],
)
def test_replicas_know_the_number_of_gpus_of_their_container(
    limits: dict[str, object] | None, gpus: int | None
) -> None:
    spec = {"resources": {"limits": limits}} if limits else {}
    assert place(1, **spec).job.gpus == gpus


def test_launchers_wait_only_for_the_end_of_replicas_that_are_required_for_success() -> None:
    strategy = {"strategy": "ParameterServer", "chief": {}, "ps": {"replicas": 1}}
    deciding = {(m.role, m.index) for m in leads(place(0, **strategy)).members if m.required_for_success}
    assert deciding == {("chief", 0)}
    assert all(m.required_for_success for m in leads(place(0)).members)


def test_an_in_place_restart_is_recorded_with_the_classification_of_the_launchers() -> None:
    launchers, story = Launchers(), Lifecycle(BOTH, command=COMMAND)
    launchers.fail(1, 137)
    todo = story.reconcile(BOTH, report=launchers.report())
    assert (created(todo), event_reasons(todo)) == ([], ["Restarting"])
    (record,) = story.status["failures"]
    assert (record["role"], record["index"], record["reason"], record["round"]) == ("worker", 1, "Crash", 0)
    assert story.status["restarts"] == {"counted": 1, "uncounted": 0, "sinceCheckpoint": 1}
