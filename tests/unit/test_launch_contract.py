"""What the controller tells launchers is understood by them, and what they tell by the controller."""

from typing import Any

from support.factories import CHECKPOINT, Story, created, manifest, told

from tfdist.contract import JOB_ENV, STANDBY_PORT_OFFSET, TF_PORT, LeaderSettings, Phase, Role
from tfdist.contract_reports import ProgressReport
from tfdist.render.gang import training_gang
from tfdist.render.installation import Installation
from tfdist.render.network_policy import network_policy
from tfdist.render.pod import Attempt, PodRenderer
from tfdist.validation import parse
from tfdist_launch.history import History
from tfdist_launch.leader import Leader
from tfdist_launch.limits import Limits
from tfdist_launch.messages import Ended, Hello, Outcome, Stopped
from tfdist_launch.report import gang_report
from tfdist_launch.settings import Place, read_place
from tfdist_operator.observed.view import Report

BOTH = "worker-0:R worker-1:R"
COMMAND = ["tfdist-launch", "python", "train.py"]
TIME = "2030-01-02T03:04:05Z"


def place(index: int, **spec: Any) -> Place:
    """Return where the launcher of a worker finds itself by the environment of its pod."""
    job = parse(manifest(command=COMMAND, **spec))
    gang = training_gang(job)
    made = PodRenderer(job, gang, Installation("trainer:1")).pod(gang.members[index], Attempt(0, 0))
    variables = made["spec"]["containers"][0]["env"]
    return read_place({v["name"]: v["value"] for v in variables if v["name"] == JOB_ENV})


def leads(place: Place) -> LeaderSettings:
    """Return what the launcher that leads is told."""
    assert place.launch.gang is not None
    return place.launch.gang


class Launchers:
    """The leader of two launchers whose programs run; the rendezvous itself is tested with the launchers."""

    def __init__(self, **spec: Any) -> None:
        self._place = place(0, **spec)
        launch, uid = leads(self._place), self._place.job.uid
        self.leader = Leader(
            launch, Limits.of(launch, uid), History("0-1a", lambda: TIME), alone=frozenset(), standby=False
        )
        for link in (0, 1):
            self.leader.joined(link, Hello(job=uid, seat=link, attempt=0, born=0.0, highest_round=-1), 0.0)

    def fail(self, seat: int, code: int) -> None:
        """Have the program of a seat end, and that of the other be stopped because of it."""
        number = self.leader.round
        outcome = Outcome(exit_code=code, termination="out of luck")
        self.leader.told(seat, Ended(round=number, outcome=outcome), 1.0)
        self.leader.told(1 - seat, Stopped(round=number), 1.0)

    def report(self) -> Report:
        """Return what the leader's report port answers, as the controller reads it."""
        told = ProgressReport(
            role=Role.WORKER, index=0, attempt=0, phase=Phase.TRAINING, gang=gang_report(self.leader, 1)
        )
        return Report(ProgressReport.model_validate_json(told.to_json()), TIME)


def test_each_launcher_finds_its_seat_and_the_limits_in_what_its_pod_is_told() -> None:
    rules = [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [3]}}]
    told_of = [place(i, runPolicy={"backoffLimit": 7}, failurePolicy={"rules": rules}) for i in range(2)]
    assert [(p.launch.seat, p.launch.gang is not None) for p in told_of] == [(0, True), (1, False)]
    limits = Limits.of(leads(told_of[0]), "1")
    assert limits.settings.backoff_limit == 7
    assert limits.policy is not None


def test_launchers_keep_programs_in_reserve_where_the_job_says_so_and_nobody_else_reaches_those() -> None:
    spec: dict[str, Any] = {"runPolicy": {"standby": True}, "checkpoint": CHECKPOINT}
    assert [place(i).launch.standby for i in range(2)] == [None, None]
    job = parse(manifest(**spec))
    gang = training_gang(job)
    for member in gang.members:
        made = PodRenderer(job, gang, Installation("trainer:1")).pod(member, Attempt(0, 0))
        assert '"standby":true' in next(
            v["value"] for v in made["spec"]["containers"][0]["env"] if v["name"] == JOB_ENV
        )
    assert not reaches(network_policy(job, "tfdist-system"), TF_PORT + STANDBY_PORT_OFFSET)
    assert reaches(network_policy(parse(manifest()), "tfdist-system"), TF_PORT + STANDBY_PORT_OFFSET)


def reaches(policy: dict[str, Any], port: int) -> bool:
    """Return whether anybody may reach a TCP port of the pods."""
    ranges = policy["spec"]["ingress"][-1]["ports"]
    return any(r["port"] <= port <= r["endPort"] for r in ranges if r["protocol"] == "TCP")


def test_launchers_wait_for_no_replica_that_serves_others_and_never_ends_by_itself() -> None:
    strategy = {"strategy": "ParameterServer", "chief": {}, "ps": {"replicas": 1}}
    deciding = {(m.role, m.index) for m in leads(place(0, **strategy)).members if m.decides}
    assert deciding == {("chief", 0)}
    assert all(m.decides for m in leads(place(0)).members)


def test_a_round_that_ended_is_recorded_as_the_launchers_have_judged_it() -> None:
    launchers, story = Launchers(), Story(BOTH, command=COMMAND)
    launchers.fail(1, 137)
    todo = story.look(BOTH, report=launchers.report())
    assert (created(todo), told(todo)) == ([], ["Restarting"])
    (record,) = story.status["failures"]
    assert (record["role"], record["index"], record["reason"], record["round"]) == ("worker", 1, "Crash", 0)
    assert story.status["restarts"] == {"counted": 1, "uncounted": 0, "sinceCheckpoint": 1}
