"""A sweep whose controller is killed between any two of its requests: no trial is lost, none runs twice."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from support.sweep_jobs import trial_job
from support.sweeps import sweep_manifest

from tfdist.api.sweep import TFDistSweep
from tfdist.api.sweep_status import TFDistSweepStatus
from tfdist.sweep_planner import SweepView, TrialJob, plan_sweep

TRIALS = 6
STEPS = 400
STOPPING: list[dict[str, Any] | None] = [
    None,
    {"method": "Asha", "minSteps": 100, "reduction": 2},
    {"method": "Asha", "minSteps": 100, "reduction": 2, "resume": True},
    {"method": "Median", "minSteps": 100, "minTrials": 1},
]


@dataclass
class Cluster:
    """The stored sweep and its jobs; `budget` is the number of requests until the controller is killed."""

    sweep: TFDistSweep
    status: TFDistSweepStatus = field(default_factory=TFDistSweepStatus)
    jobs: dict[int, TrialJob] = field(default_factory=dict)
    steps: dict[int, int] = field(default_factory=dict)
    created: list[int] = field(default_factory=list)
    now: datetime = datetime(2030, 1, 1, tzinfo=UTC)

    def reconcile(self, budget: int, written_ago: float) -> None:
        """Execute the first requests of a plan."""
        view = SweepView(self.sweep, (), 1, self.status, dict(self.jobs), written_seconds_ago=written_ago)
        plan = plan_sweep(view, self.now)
        requests: list[tuple[str, Any]] = [("status", plan.status)] if plan.status else []
        requests += [("create", trial) for trial in plan.creates] + [("suspend", trial) for trial in plan.suspends]
        requests += [("resume", trial) for trial in plan.resumes] + [("delete", trial) for trial in plan.deletes]
        for kind, what in requests[:budget]:
            self._send(kind, what)

    def _send(self, kind: str, what: Any) -> None:
        if kind == "status":
            self.status = what
        elif kind == "create":
            assert what not in self.created
            self.created.append(what)
            self.jobs[what], self.steps[what] = trial_job(), 0
        elif kind == "delete":
            del self.jobs[what]
        else:
            suspended = kind == "suspend"
            self.jobs[what] = replace(self.jobs[what], suspended=suspended, suspended_by_sweep=suspended)

    def train(self, trial: int) -> None:
        """Let the job of a trial train for 100 steps, or end."""
        job = self.jobs.get(trial)
        if job is None or job.is_finished:
            return
        flags = {"suspended": job.suspended, "suspended_by_sweep": job.suspended_by_sweep}
        value = (trial * 7 % TRIALS + 1) / TRIALS * self.steps[trial] / STEPS
        if job.suspended:
            self.jobs[trial] = trial_job("Suspended", value, self.steps[trial], **flags)
            return
        self.steps[trial] += 100
        value = (trial * 7 % TRIALS + 1) / TRIALS * self.steps[trial] / STEPS
        phase = "Succeeded" if self.steps[trial] >= STEPS else "Running"
        self.jobs[trial] = trial_job(phase, value, self.steps[trial], **flags)


@given(
    stopping=st.sampled_from(STOPPING),
    clean=st.sampled_from(["None", "Stopped", "AllButBest"]),
    history=st.lists(
        st.tuples(
            st.integers(0, 8), st.sampled_from([1.0, 3.0, 60.0]), st.lists(st.integers(0, TRIALS - 1), max_size=4)
        ),
        max_size=40,
    ),
)
def test_every_trial_ends_once_whenever_the_controller_is_killed(
    stopping: dict[str, Any] | None, clean: str, history: list[tuple[int, float, list[int]]]
) -> None:
    """Given any history of requests, kills and training steps; when the controller stays, then each trial ends."""
    fields: dict[str, Any] = {
        "metric": "accuracy",
        "search": {"trials": TRIALS},
        "parallelism": 2,
        "cleanTrials": clean,
    }
    manifest = sweep_manifest(**fields, earlyStopping=stopping)
    cluster = Cluster(TFDistSweep.model_validate(manifest))
    for budget, written_ago, trained in history:
        cluster.reconcile(budget, written_ago)
        for trial in trained:
            cluster.train(trial)
        cluster.now += timedelta(seconds=1)
        assert sum(not job.is_finished and not job.suspended for job in cluster.jobs.values()) <= 3
    for number in range(200):
        cluster.reconcile(100, 60.0 if number % 3 == 2 else 1.0)
        for trial in range(TRIALS):
            cluster.train(trial)

    assert cluster.status.phase == "Succeeded"
    assert sorted(cluster.created) == list(range(TRIALS))
    results = {result.trial: result for result in cluster.status.results or ()}
    assert sorted(results) == list(range(TRIALS))
    assert {str(result.phase) for result in results.values()} <= {"Succeeded", "Stopped"}
    assert cluster.status.best is not None
    assert cluster.status.best[0].value == max(result.value or 0 for result in results.values())
    assert cluster.status.best[0].trial in cluster.jobs
