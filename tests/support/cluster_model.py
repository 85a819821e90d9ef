"""A cluster in memory with one job and a controller that sees it late, as watches do, and may be killed at any request.

What is true and what the controller has seen are kept apart: a look plans from what was seen, a status is refused when
somebody has written the job since, and every request is carried out on what is true. The rules that must hold at any
moment are asserted where requests are carried out.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import lru_cache, partial
from typing import Any

from support.factories import CHECKPOINT, NOW, SETTINGS, manifest, words
from support.launched import told
from tfdist.api.status import TFDistJobStatus
from tfdist.api.v1 import TFDistJob
from tfdist.validation import parse
from tfdist_operator.observed.pod import PodState, PodSummary, summarize
from tfdist_operator.observed.view import JobView
from tfdist_operator.planner import Plan, plan
from tfdist_operator.status.clock import rfc3339
from tfdist_operator.status.phase import is_terminal

BACKOFF_LIMIT = 2
RESULT = {"step": 9, "checkpoint": "/c/9", "metrics": {"accuracy": 0.9}, "examples": 10, "time": "2030-01-01T00:00:00Z"}
EVICTED = -1
EXITS = (0, 1, 3, 42, 75, 78, 137, 143, EVICTED)
_PROGRAM = {"image": "user/program:1", "command": ["run"]}
_DEADLINES = {"startDeadlineSeconds": 3000, "activeDeadlineSeconds": 20000}

JOBS: dict[str, dict[str, Any]] = {
    "mirrored workers, evaluated afterwards": {"evaluation": {"mode": "AfterTraining"}, "checkpoint": CHECKPOINT},
    "parameter servers with an evaluator": {
        "strategy": "ParameterServer",
        "chief": {},
        "ps": {"replicas": 1},
        "evaluator": {},
        **_PROGRAM,
    },
    "all roles, all workers decide": {
        "strategy": "Custom",
        "chief": {},
        "ps": {"replicas": 1},
        "evaluator": {},
        "successPolicy": "AllWorkers",
        **_PROGRAM,
    },
    "one device with deadlines": {"strategy": "OneDevice", "worker": {"replicas": 1}, "runPolicy": _DEADLINES},
    "evaluation alone": {"task": "Evaluate", "checkpoint": CHECKPOINT},
    "workers under launchers": {"successPolicy": "AllWorkers"},
    "evaluated beside training and after it": {"evaluation": {"mode": "Both"}, "checkpoint": CHECKPOINT},
}


@lru_cache(maxsize=256)
def job_of(kind: str, suspend: bool, workers: int | None) -> TFDistJob:
    """Return the job of a kind as its user has it now."""
    spec = JOBS[kind]
    policy = {"backoffLimit": BACKOFF_LIMIT, "keepFailedPods": 1, **spec.get("runPolicy", {}), "suspend": suspend}
    changed = {"worker": {"replicas": workers}} if workers else {}
    return parse(manifest(**(spec | {"runPolicy": policy} | changed)))


@dataclass
class Job:
    """The job as the API server stores it."""

    job: TFDistJob
    version: int = 1
    generation: int = 1
    status: dict[str, Any] = field(default_factory=dict)
    deleting: bool = False


class StaleError(Exception):
    """Somebody has written the job since it was seen."""


class Cluster:
    """One job, its pods, and the controller's view of them."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.now: datetime = NOW
        self.suspend, self.workers = False, None if "OneDevice" in str(JOBS[kind]) else 2
        self.true = Job(job_of(kind, self.suspend, self.workers))
        self.pods: dict[str, PodSummary] = {}
        self.served: str | None = None
        self.checkpoint = 0
        self.requests: Counter[str] = Counter()
        self.events: list[str] = []
        self.dirty = True
        self.timer: datetime | None = None
        self.start()

    # The controller

    def start(self) -> None:
        """Start a controller, which remembers nothing and lists everything."""
        self.swept, self.looked = False, False
        self.seen_pods: dict[str, PodSummary] = {}
        self.sync()

    def sync(self, part: int = 0) -> None:
        """Let the controller see what is true: all (0), the job alone (1), or the pods of even or odd index (2, 3)."""
        if part in {0, 1}:
            self.seen = replace(self.true)
        wanted = {0: {0, 1}, 1: set(), 2: {0}, 3: {1}}[part]
        for name in {*self.pods, *self.seen_pods}:
            true = self.pods.get(name)
            if (true or self.seen_pods[name]).index % 2 not in wanted:
                continue
            if true is None:
                del self.seen_pods[name]
            else:
                self.seen_pods[name] = true

    def plan(self) -> Plan:
        """Plan from what the controller has seen."""
        job = self.seen
        pods = tuple(self.seen_pods[n] for n in sorted(self.seen_pods))
        view = JobView(job.job, (), job.generation, job.status, pods, deleting=job.deleting)
        view = replace(view, swept=self.swept, taken_over=not self.looked, report=told(self.kind, job.status))
        return plan(view, self.now, SETTINGS)

    def look(self, killed_after: int | None = None) -> None:
        """Carry a plan out; or only its first requests, and start another controller."""
        todo = self.plan()
        self.dirty = self.seen.version != self.true.version or self.seen_pods != self.pods  # more is to come through
        self.timer = None
        if todo.requeue_after_seconds is not None:
            self.timer = self.now + timedelta(seconds=todo.requeue_after_seconds)
        actions = self._actions(todo)
        try:
            for action in actions[:killed_after]:
                action()
            self.looked = True
        except StaleError:
            self.dirty = True
        if killed_after is not None and killed_after < len(actions):
            self.start()
            self.dirty = True

    def _actions(self, todo: Plan) -> list[Callable[[], object]]:
        actions: list[Callable[[], object]] = []
        if todo.status is not None:
            actions.append(partial(self._store, todo.status))
        actions += [partial(self._apply, made) for made in todo.objects]
        actions += [partial(self._create, made) for made in todo.creates]
        actions += [partial(self._patch, patch.pod) for patch in todo.patches]
        actions += [partial(self.delete, name) for name in todo.deletes]
        actions += [partial(self._tell, event.reason, event.identity) for event in todo.events]
        return [*actions, *([self._sweep] if todo.sweep else [])]

    def _store(self, status: dict[str, Any]) -> None:
        self.requests["status"] += 1
        if self.seen.version != self.true.version:
            raise StaleError
        _check_status(self.true.status, status)
        self.true = replace(self.true, status=status, version=self.true.version + 1)
        self.seen = replace(self.true)
        self.dirty = True

    def _apply(self, made: dict[str, Any]) -> None:
        self.requests["apply"] += 1
        if made["kind"] == "Service":
            self.served = made["spec"]["selector"]["tfdist.dev/address-generation"]

    def _create(self, made: dict[str, Any]) -> None:
        self.requests["create"] += 1
        assert not self.seen.deleting, "a job that is deleted gets a pod"
        name = made["metadata"]["name"]
        if name in self.pods:  # the API server refuses a second one
            return
        meta = made["metadata"] | {"uid": f"{name}-{self.requests['create']}", "resourceVersion": "1"}
        self._change(summarize(made | {"metadata": meta | {"creationTimestamp": rfc3339(self.now)}}))
        self.seen_pods[name] = self.pods[name]

    def _patch(self, name: str) -> None:
        self.requests["patch"] += 1
        if name in self.pods:
            self._change(replace(self.pods[name], generation=""))

    def delete(self, name: str) -> None:
        """Delete a pod: one that runs gets its time to end."""
        self.requests["delete"] += 1
        pod = self.pods.get(name)
        if pod is not None and pod.state is PodState.RUNNING:
            self._change(replace(pod, deleting=True, deleted_at=rfc3339(self.now)))
        elif pod is not None:
            self._remove(name)

    def _tell(self, reason: str, identity: str) -> None:
        self.requests["event"] += 1
        self.events.append(f"{reason}-{identity}")

    def _sweep(self) -> None:
        self.requests["sweep"] += 1
        self.served, self.swept = None, True

    # Pods and users

    def _change(self, pod: PodSummary) -> None:
        self.pods[pod.name] = pod
        self.dirty = True

    def _remove(self, name: str) -> None:
        del self.pods[name]
        self.dirty = True

    def end(self, pod: PodSummary, code: int) -> None:
        """Have a pod end."""
        state = PodState.FAILED if code else PodState.SUCCEEDED
        ended = replace(pod, state=state, ready=False, finished_at=rfc3339(self.now), node="node-a")
        if code == EVICTED:
            ended = replace(ended, disrupted=True, reason="Evicted", message="the node was low on memory")
        else:
            self.checkpoint += code == 42
            saved = {"step": self.checkpoint, "path": "/c", "time": rfc3339(self.now)}
            told = {0: {"evaluation": RESULT}, 42: {"last_checkpoint": saved}}.get(code, {})
            ended = replace(ended, exit_code=code, message=words(**told, message=f"ended at {self.now}"))
        self._change(ended)

    def happen(self, which: int, code: int | None) -> None:
        """Have a live pod start, end with an exit code, or (None) be deleted by somebody; one that is deleted goes."""
        live = sorted(n for n, p in self.pods.items() if not p.ended or p.deleting)
        if not live:
            return
        pod = self.pods[live[which % len(live)]]
        if pod.deleting:
            self._remove(pod.name)
        elif code is None:
            self.delete(pod.name)
        elif pod.state is PodState.PENDING:
            self._change(replace(pod, state=PodState.RUNNING, ready=True))
        else:
            self.end(pod, code)

    def collect(self, which: int) -> None:
        """Have the pod of a replica that ended be garbage-collected."""
        ended = sorted(n for n, p in self.pods.items() if p.ended)
        if ended:
            self._remove(ended[which % len(ended)])

    def user(self, *, suspend: bool, workers: int) -> None:
        """Have the user suspend or resume the job, and give it another size where it stands still."""
        may_resize = self.workers is not None and (suspend or self.suspend or not self.true.status)
        self.suspend, self.workers = suspend, workers if may_resize else self.workers
        job = job_of(self.kind, self.suspend, self.workers)
        if job is not self.true.job:
            version, generation = self.true.version + 1, self.true.generation + 1
            self.true = replace(self.true, job=job, version=version, generation=generation)
            self.dirty = True

    def remove_job(self) -> None:
        """Have the user delete the job."""
        self.true = replace(self.true, deleting=True, version=self.true.version + 1)

    def finish(self) -> None:
        """Let all pods start and end well from now on; the controller looks after a change, or when its timer tells."""
        self.user(suspend=False, workers=self.workers or 1)
        for _ in range(400):
            if self.dirty:
                self.sync()
                self.look()
            elif any(not p.ended or p.deleting for p in self.pods.values()) and not is_terminal(self.true.status):
                for number in range(len(self.pods)):
                    self.happen(number, 0)
            elif any(p.deleting for p in self.pods.values()):
                self.happen(0, 0)
            elif self.timer is not None:
                self.now = max(self.timer, self.now)
                self.dirty = True
            else:
                return
        raise AssertionError(f"no rest after 400 looks: {self.true.status}")

    def check_rest(self) -> None:
        """Assert what holds once a plan was carried out from the newest view."""
        resolved = Counter((p.role, p.index) for p in self.pods.values() if not p.ended and p.generation == self.served)
        assert all(n == 1 for n in resolved.values()), f"two pods share an address: {resolved}"
        live = Counter((p.role, p.index) for p in self.pods.values() if not p.ended and not p.deleting)
        assert all(n == 1 for n in live.values()), f"a replica runs twice: {live}"


def _check_status(old: dict[str, Any], new: dict[str, Any]) -> None:
    """Assert what holds between any status and the next."""
    TFDistJobStatus.model_validate(new)
    if is_terminal(old):
        assert new["phase"] == old["phase"], "a final state was left"
    for gang, record in old.get("gangs", {}).items():
        for number in ("attempt", "floor", "counted", "uncounted"):
            assert record.get(number, 0) <= new["gangs"][gang].get(number, 0), f"{gang} forgot its {number}"
    for record in new.get("gangs", {}).values():
        assert record.get("sinceCheckpoint", 0) <= BACKOFF_LIMIT, "the limit of restarts was exceeded"
    causes = [f for f in old.get("failures", ()) if f["rootCause"]]
    kept = [f for f in new.get("failures", ()) if f["rootCause"]]
    assert len(kept) == 10 or kept[: len(causes)] == causes, "a failure was forgotten"
