"""Reports are untrusted: with any content the job continues, and the API server accepts its status."""

import json
from datetime import timedelta
from typing import Any

import orjson
import pytest
from support.factories import CHECKPOINT as SAVES
from support.factories import NOW, Lifecycle, deleted, event_reasons, launcher_report, pod, report, termination_message
from support.factories import failure_in_place as failure

from tfdist.api.status import TFDistJobStatus
from tfdist.contract import Phase, Restarts
from tfdist.contract_model import INT32_MAX
from tfdist.contract_reports import ProgressReport
from tfdist.observed.job_view import ProbeResult, StepCadence, TimestampedReport
from tfdist.planner.inplace_restart import MAX_EVENTS
from tfdist.timestamps import rfc3339

BOTH = "worker-0:R worker-1:R"
TRAINS: dict[str, Any] = {"role": "worker", "index": 0, "attempt": 0, "phase": "training", "step": 5, "totalSteps": 10}
HUGE = 10**400
LONG = "x" * 5000


def parsed(**fields: Any) -> TimestampedReport:
    """Return what becomes of a report in which these fields are as given."""
    return TimestampedReport(ProgressReport.model_validate_json(json.dumps(TRAINS | fields)), rfc3339(NOW))


HOSTILE: dict[str, dict[str, Any]] = {
    "infinite durations": {
        "stepTimeMillis": float("inf"),
        "remainingSeconds": float("inf"),
        "inputWaitMillis": float("-inf"),
    },
    "rates that are not numbers": {"examplesPerSecond": float("nan"), "stepTimeMillis": float("nan")},
    "numbers beyond 64 bits": {"step": 2**70, "totalSteps": 2**71, "epoch": 2**64, "examples": HUGE},
    "a huge number of steps": {"step": 2**53 - 1, "totalSteps": 1, "remainingSeconds": 1e15},
    "a huge rest": {"step": 0, "totalSteps": 2**53 - 1, "remainingSeconds": 1e15},
    "a negative percentage": {"percent": -1},
    "a percentage beyond 100": {"percent": 1e15},
    "a percentage that is not a number": {"percent": float("nan")},
    "negative numbers": {"step": -5, "totalSteps": -7, "epoch": -1, "examplesPerSecond": -3.5, "stepTimeMillis": -1},
    "metrics of any name, number and value": {
        "metrics": {LONG: 1, "a\nb": 2, "\x1b[2J": 3, "": 4, "nan": float("nan"), "big": 1e308, "text": "five"}
        | {f"m{n}": n for n in range(3000)}
    },
    "a checkpoint that is none": {"lastCheckpoint": {"step": 5, "path": "/a\n/b", "time": "not a time"}},
    "a time that is none": {"lastCheckpoint": {"step": 5, "path": "/a", "time": "2030-02-31T00:00:00Z"}},
    "an evaluation that is none": {"evaluation": {"step": -1}, "bestEvaluation": [], "finalEvaluation": "x"},
    "a gang that is none": {"gang": {"members": "all", "failures": {"a": 1}, "restarts": -1, "round": "x"}},
    "restarts beyond all limits": {"gang": {"restarts": {"counted": HUGE, "sinceCheckpoint": INT32_MAX}}},
    "waits without end": {"gang": {"round": 3, "waitingFor": [LONG] * 5000}, "waitingFor": ["\x00" * 9000]},
    "a slow replica of another job": {"slowReplica": {"role": "worker", "index": 9, "ownMillis": 2, "othersMillis": 1}},
    "a slow replica that is none": {"slowReplica": {"role": "king", "index": -1, "ownMillis": LONG}},
    "failures of strangers": {"gang": {"failures": [{"id": "a", "role": "king", "index": HUGE}, 5, None]}},
}


@pytest.mark.parametrize("fields", HOSTILE.values(), ids=HOSTILE)
def test_with_any_report_the_status_is_valid_and_suspend_and_the_deadline_act(fields: dict[str, Any]) -> None:
    hostile = parsed(**fields)
    story = Lifecycle(BOTH)
    story.reconcile(BOTH, report=hostile, evaluated=hostile.content)
    assert_stored(story)
    story.spec = {"runPolicy": {"suspend": True}}
    assert deleted(story.reconcile(BOTH, report=hostile)) == ["worker-0", "worker-1"]

    story = Lifecycle(BOTH, runPolicy={"activeDeadlineSeconds": 10})
    story.reconcile(BOTH, after=11, report=hostile)
    assert (story.status["phase"], story.condition_status("Failed")[1]) == ("Failed", "ActiveDeadlineExceeded")
    assert_stored(story)


def assert_stored(story: Lifecycle) -> None:
    """Assert that the API server would take the status, and that the columns show no nonsense."""
    TFDistJobStatus.model_validate(story.status)
    orjson.dumps(story.status)
    progress = story.status.get("progress", {})
    assert 0 <= progress.get("percent", 0) <= 100
    assert progress.get("step", 0) >= 0
    assert progress.get("etaSeconds", 0) >= 0
    assert len(json.dumps(story.status)) < 32_000


def test_one_value_out_of_its_bounds_costs_the_report_nothing_else() -> None:
    story = Lifecycle(BOTH)
    story.reconcile(BOTH, report=parsed(stepTimeMillis=float("nan"), metrics={"loss": float("nan"), "a": 1}))
    progress = story.status["progress"]
    assert (progress["step"], progress["percent"], progress["metrics"]) == (5, 50, {"a": 1.0})


CHECKPOINT: dict[str, Any] = {"step": 5, "path": "/a"}


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        ({"metrics": {LONG: 1, "a\nb": 2, "\x1b[2J": 3, "": 4, "text": "five", "a": 5}}, {"metrics": {"a": 5}}),
        ({"metrics": {f"m{n}": n for n in range(3000)}}, {"metrics": {f"m{n}": n for n in range(64)}}),
        ({"lastCheckpoint": CHECKPOINT | {"path": LONG}}, {}),
        ({"lastCheckpoint": CHECKPOINT | {"path": "/a\n/b"}}, {}),
        ({"lastCheckpoint": CHECKPOINT | {"time": "not a time"}}, {"lastCheckpoint": CHECKPOINT}),
        ({"lastCheckpoint": CHECKPOINT | {"time": "2030-02-31T00:00:00Z"}}, {"lastCheckpoint": CHECKPOINT}),
        ({"waitingFor": [LONG] * 5000}, {"waitingFor": ["x" * 256] * 16}),
        ({"waitingFor": ["a\x1bb\x00c"]}, {"waitingFor": ["a b c"]}),
    ],
    ids=[
        "names of metrics", "number of metrics", "length of a path", "lines of a path", "a time", "the date of a time",
        "length and number of texts", "control characters",
    ],
)  # fmt: skip
def test_what_is_read_is_bounded(sent: dict[str, Any], read: dict[str, Any]) -> None:
    known = {"schemaVersion", "round"} | TRAINS.keys()
    kept = parsed(**sent).content.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude_none=True)
    assert {name: value for name, value in kept.items() if name not in known} == read


def test_the_remaining_time_is_that_of_the_report_unless_it_is_no_useful_one() -> None:
    story = Lifecycle(BOTH)
    story.reconcile(BOTH, report=parsed(step=6, totalSteps=10, stepTimeMillis=1, remainingSeconds=64.6))
    assert (story.status["progress"]["etaSeconds"], story.status["summary"]["eta"]) == (65, "1m5s")
    # when it is longer than ten years, or there is none
    for unknown in ({"remainingSeconds": 4e8}, {}):
        story.reconcile(BOTH, after=60, report=parsed(step=7, totalSteps=10, stepTimeMillis=1, **unknown))
        assert "etaSeconds" not in story.status["progress"]


def test_training_that_continues_beyond_its_last_step_is_complete() -> None:
    story = Lifecycle(BOTH)
    story.reconcile(BOTH, report=parsed(step=12, totalSteps=10, remainingSeconds=0))
    assert (story.status["progress"]["percent"], story.status["progress"]["etaSeconds"]) == (100, 0)
    assert story.status["summary"]["eta"] == "0s"


def test_a_phase_or_a_role_of_a_newer_version_is_unknown_and_the_rest_is_read() -> None:
    report = parsed(phase="loading", role="referee", schemaVersion=2, aNewField={"x": 1})
    assert (report.content.phase, report.content.role, report.content.step) == (Phase.UNKNOWN, None, 5)
    assert report.content.schema_version == 2
    assert '"schemaVersion":1' in launcher_report().content.to_json()


def test_a_report_of_many_made_up_failures_causes_few_events_and_no_reason_of_its_own() -> None:
    story = Lifecycle(BOTH)
    story.reconcile(BOTH, report=launcher_report())
    made_up = [failure(n, reason=f"R{n}") for n in range(1, 301)]
    body = launcher_report(*made_up, restarts=Restarts()).content.to_json()
    sent = TimestampedReport(ProgressReport.model_validate_json(body), rfc3339(NOW))
    todo = story.reconcile(BOTH, report=sent)
    assert event_reasons(todo) == ["Restarting"] * (MAX_EVENTS + 1)
    assert {event.cause for event in todo.events} == {"Other"}
    assert {record["reason"] for record in story.status["failures"]} == {"Other"}
    assert "45 more failures" in todo.events[0].message
    assert event_reasons(story.reconcile(BOTH, report=sent)) == []


def test_a_failure_of_a_replica_that_the_gang_does_not_have_is_not_recorded() -> None:
    story = Lifecycle(BOTH)
    story.reconcile(BOTH, report=launcher_report())
    story.reconcile(BOTH, report=launcher_report(failure(1, index=7)))
    assert "failures" not in story.status


def test_restarts_that_launchers_make_up_reach_no_number_that_the_next_leader_could_not_read() -> None:
    story = Lifecycle(BOTH, command=["tfdist-launch", "train"])
    most = Restarts(counted=INT32_MAX, uncounted=INT32_MAX, since_checkpoint=INT32_MAX)
    story.reconcile(BOTH, report=launcher_report())
    story.reconcile("worker-0:R worker-1:F", report=launcher_report())
    assert story.status["restarts"]["counted"] == 1
    story.reconcile("worker-0:R worker-1-r1:R", report=launcher_report(restarts=most))
    assert story.status["restarts"]["counted"] == INT32_MAX
    story.reconcile(
        [pod("worker-0", "F", disrupted=True, exit_code=None), pod("worker-1-r1")],
        report=launcher_report(restarts=most),
    )
    story.reconcile("worker-0-r2:R worker-1-r1:R", report=launcher_report(attempt=2, restarts=most))
    TFDistJobStatus.model_validate(story.status)
    assert story.status["restarts"]["counted"] <= INT32_MAX


def test_a_reason_in_a_termination_message_never_becomes_a_condition_of_its_own() -> None:
    for reason, expected in (("x" * 300, None), ("MadeUp", "Other"), ("RepeatedError", "RepeatedError")):
        story = Lifecycle(BOTH)
        story.reconcile(BOTH, report=launcher_report())
        end = {"role": "worker", "index": 1, "round": 3, "reason": reason, "restarts": {}}
        message = termination_message(gangEnd=end, message="\x1b[2J" + "y" * 2000)
        story.reconcile([pod(name, "F", exit_code=1, message=message) for name in ("worker-0", "worker-1")])
        TFDistJobStatus.model_validate(story.status)
        assert ("Failed" in [c["type"] for c in story.status["conditions"]]) == (expected is not None)
        assert expected is None or story.condition_status("Failed")[1] == expected


def test_a_replica_with_an_unreadable_answer_is_not_the_one_behind() -> None:
    story = Lifecycle(BOTH, runPolicy={"progressDeadlineSeconds": 60})
    cadence = StepCadence(0, rfc3339(NOW), progress_count=9)
    todo = story.reconcile(BOTH, after=61, cadence=cadence, report=parsed())
    probe_result = ProbeResult(todo.probe_id, "", "worker-0: returns no readable stacks")
    story.reconcile(BOTH, cadence=cadence, report=parsed(), probe_result=probe_result)
    assert "no replica is known to be behind" in story.message("Stalled")
    assert "node" not in story.status["failures"][-1]


@pytest.mark.parametrize(("message", "epoch"), [({"step": 30, "epoch": 3}, 3), ({"step": 30}, None), ({"step": 20}, 1)])
def test_the_epoch_after_the_end_is_that_of_the_last_step(message: dict[str, Any], epoch: int | None) -> None:
    """A trainer that ends between two reports has completed epochs that no report counts."""
    job = Lifecycle(BOTH)
    job.reconcile(BOTH, report=report(20, 30, epoch=1))
    job.reconcile([pod("worker-0", "S", message=termination_message(**message)), pod("worker-1", "S")])
    assert job.status["progress"].get("epoch") == epoch


def test_a_job_that_ends_before_a_report_is_read_has_its_total() -> None:
    job = Lifecycle(BOTH)
    ended = termination_message(step=24, totalSteps=24)
    job.reconcile([pod("worker-0", "S", message=ended), pod("worker-1", "S")])
    progress = job.status["progress"]
    assert (progress["step"], progress["totalSteps"], progress["percent"]) == (24, 24, 100)


def test_a_reported_percentage_counts_instead_of_that_of_the_steps() -> None:
    """Steps of gangs of several sizes have different numbers of examples."""
    job = Lifecycle(BOTH)
    job.reconcile(BOTH, report=parsed(percent=64.9))
    assert (job.status["progress"]["percent"], job.status["progress"]["totalSteps"]) == (64, 10)
    ended = termination_message(step=6, totalSteps=10, percent=70.2)
    job.reconcile([pod("worker-0", "S", message=ended), pod("worker-1", "S")])
    assert job.status["progress"]["percent"] == 70


def test_training_that_stops_early_is_complete_at_its_last_step() -> None:
    job = Lifecycle(BOTH)
    job.reconcile(BOTH, report=report(20, 80))
    job.reconcile([pod("worker-0", "S", message=termination_message(step=24, totalSteps=24)), pod("worker-1", "S")])
    assert (job.status["progress"]["totalSteps"], job.status["progress"]["percent"]) == (24, 100)


def test_the_members_that_the_leader_waits_for_without_a_launcher_are_named() -> None:
    story = Lifecycle("worker-0:R worker-1:R")
    waits = report(phase=Phase.RENDEZVOUS, waiting_for=["fashion-worker-1.team:2222"])
    story.reconcile("worker-0:R worker-1:R", report=waits)
    waiting = "worker-0 waits for fashion-worker-1.team:2222 to connect"
    assert waiting in story.message("Running")
    story.reconcile("worker-0:R worker-1:R", report=report(step=1))
    assert waiting not in story.message("Running")


SCRIPTS: tuple[dict[str, Any], ...] = (
    {"without": ["training"], "command": ["python", "train.py"]},
    {"training": {"script": "team.train"}},
    {"image": "a"},
    {"template": {"spec": {"containers": [{"name": "tensorflow", "command": ["python", "mine.py"]}]}}},
)
NO_PROGRESS = (
    "the program reports no progress; the log of worker-0: kubectl logs -n team fashion-worker-0 -c tensorflow"
)


@pytest.mark.parametrize("script", SCRIPTS, ids=["command", "script", "image", "command with training"])
def test_after_a_minute_without_a_report_the_status_of_a_program_names_the_log(script: dict[str, Any]) -> None:
    # given
    story = Lifecycle(BOTH, **script)
    assert story.condition_status("Running")[0] == "True"
    # when
    todo = story.reconcile(BOTH, after=20)
    # then
    assert todo.requeue_after_seconds == 40
    assert "progress" not in story.message("Running")
    story.reconcile(BOTH, after=40)
    assert story.message("Running") == f"all 2 replicas run (attempt 0); {NO_PROGRESS}"
    assert story.reconcile(BOTH, after=3600).status is None, "written once"
    story.reconcile(BOTH, report=report(step=1))
    assert story.message("Running") == "all 2 replicas run (attempt 0)"
    story.reconcile(BOTH, after=3600)
    assert story.message("Running") == "all 2 replicas run (attempt 0)", "a new controller has no report yet"


def test_a_job_with_a_program_waits_for_its_reports() -> None:
    story = Lifecycle(BOTH)
    story.reconcile(BOTH, after=3600)
    assert story.message("Running") == "all 2 replicas run (attempt 0)"


def test_the_progress_of_a_lost_attempt_is_not_shown_as_that_of_the_next() -> None:
    # given a job without checkpoints that has trained, and is suspended and resumed
    story = Lifecycle(BOTH)
    story.reconcile(BOTH, report=parsed())
    assert story.status["progress"]["step"] == 5
    later = [pod(f"worker-{index}", created_at=rfc3339(NOW + timedelta(seconds=60))) for index in range(2)]
    # when its new pods run and have not reported
    story.reconcile(later, after=60)
    # then no progress is shown, until the first report
    assert "step" not in story.status.get("progress", {})
    assert "progress" not in story.status["summary"]
    story.reconcile(later, after=60, report=parsed(step=1))
    assert story.status["progress"]["step"] == 1


def test_with_checkpoints_the_progress_stays_until_the_next_report() -> None:
    story = Lifecycle(BOTH, checkpoint=SAVES)
    story.reconcile(BOTH, report=parsed())
    later = [pod(f"worker-{index}", created_at=rfc3339(NOW + timedelta(seconds=60))) for index in range(2)]
    story.reconcile(later, after=60)
    assert story.status["progress"]["step"] == 5
