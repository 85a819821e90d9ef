"""A cluster in memory with one job and a controller that sees it late, as watches do, and may be killed at any request.

The true state and the state that the controller has seen are separate: a reconciliation plans from the seen state, a
status is rejected when the job was written since, and every request changes the true state. The rules that must always
hold are asserted where requests are carried out.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial as bound
from typing import Any

from support.factories import INSTALLATION, NOW, termination_message, view_of
from support.launched import gang_report
from support.model_checks import check_one_specification, check_secret, check_status
from support.model_jobs import JOBS, Edition, Job, parsed
from support.owned_model import OwnedModel
from support.simulated_kueue import SimulatedKueue, StaleError
from support.statuses import is_finished
from tfdist.api.gang_system import Availability, GangSystem
from tfdist.api.v1 import TFDistJob
from tfdist.desired.owned_kinds import POD_GROUPS
from tfdist.observed.pod import PodState, PodSummary, summarize
from tfdist.planner import Plan, plan
from tfdist.planner.plan import WorkloadChange
from tfdist.render.names import CHECKPOINT_ANNOTATION
from tfdist.scheduling.kueue import KueueView, pod_set_of
from tfdist.timestamps import rfc3339
from tfdist.validation.structure import MAX_SPEC_BYTES
from tfdist_operator.cache.specifications import SpecificationReader, valid_part

RESULT = {"step": 9, "checkpoint": "/c/9", "metrics": {"accuracy": 0.9}, "examples": 10, "time": "2030-01-01T00:00:00Z"}
EVICTED = -1
EXITS = (0, 1, 3, 42, 75, 78, 137, 143, EVICTED)

_READER = SpecificationReader({}, check_programs=True, max_bytes=MAX_SPEC_BYTES)


class Cluster:
    """One job, its pods, and the controller's view of them."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.now: datetime = NOW
        self.true = Job(Edition(workers=None if "OneDevice" in str(JOBS[kind]) else 2))
        self.made_of: dict[str, str] = {}
        self.pods: dict[str, PodSummary] = {}
        self.served: str | None = None
        self.checkpoint = 0
        self.requests: Counter[str] = Counter()
        self.secrets: set[str] = set()
        self.owned = OwnedModel(self.requests)
        self.events: list[str] = []
        self.served_systems: frozenset[GangSystem] = frozenset({GangSystem.NATIVE})
        self.unknown = False  # whether it is not known which gang schedulers are served
        self.kueue = SimulatedKueue() if "Kueue" in kind else None
        self.hostile: int | None = None  # the hostile report that the leader gives
        self.dirty = True
        self.timer: datetime | None = None
        self.start()

    # The controller

    def start(self) -> None:
        """Start a controller, which remembers nothing and lists everything."""
        self.failure_seen_at: Mapping[str, datetime] = {}
        self.older: Mapping[int, TFDistJob] = {}
        self.seen = replace(self.true)
        self.seen_pods: dict[str, PodSummary] = {}
        self.sync()

    def sync(self, part: int = 0) -> None:
        """Let the controller see what is true: all (0), the job alone (1), or the pods of even or odd index (2, 3)."""
        if part in {0, 1}:
            self._see_job()
            self.owned.sync()
            self.seen_kueue = self._true_kueue()
        remainders = {0: {0, 1}, 1: set(), 2: {0}, 3: {1}}[part]
        for name in {*self.pods, *self.seen_pods}:
            true = self.pods.get(name)
            if (true or self.seen_pods[name]).index % 2 not in remainders:
                continue
            if true is None:
                del self.seen_pods[name]
            else:
                self.seen_pods[name] = true

    def _true_kueue(self) -> KueueView | None:
        return self.kueue.view() if self.kueue and self.kueue.served else None

    def _systems(self) -> Mapping[GangSystem, Availability]:
        """Return what is known of the gang schedulers; for a job that may leave its queue, Kueue is never absent."""
        pod_groups = POD_GROUPS.keys() if self.unknown else self.served_systems
        known = Availability.UNKNOWN if self.unknown else Availability.SERVED
        kueue = Availability.UNKNOWN if "in a queue of Kueue" in self.kind else Availability.ABSENT
        return {GangSystem.KUEUE: kueue} | dict.fromkeys(pod_groups, known)

    def _see_job(self) -> None:
        """Let the controller see the job; it remembers the specifications before, if it has seen them."""
        job, _, _ = parsed(self.kind, self.seen.edition)
        specifications = {**self.older, self.seen.generation: job} if job else self.older
        self.seen = replace(self.true)
        self.older = _READER.read_older(_READER.older_specifications(self._raw(), specifications))

    def _raw(self) -> dict[str, Any]:
        raw = self.seen.edition.manifest(self.kind)
        return raw | {"metadata": raw["metadata"] | {"generation": self.seen.generation}, "status": self.seen.status}

    def plan(self) -> Plan:
        """Plan from what the controller has seen."""
        job, (content, problems, template) = self.seen, parsed(self.kind, self.seen.edition)
        pods = tuple(self.seen_pods[n] for n in sorted(self.seen_pods))
        view = view_of(
            job=content,
            problems=problems,
            generation=job.generation,
            status=job.status,
            pods=pods,
            deleting=job.deleting,
            template=template,
            report=gang_report(self.kind, job.status, self.hostile),
            older=self.older,
            partial=valid_part(self._raw(), problems) if problems else None,
            restarted_at=job.restarted_at,
            failure_seen_at=self.failure_seen_at,
            systems=self._systems(),
            kueue=self.seen_kueue,
        )
        todo = plan(view, self.now, INSTALLATION)
        self.failure_seen_at = todo.failure_seen_at
        return todo

    def reconcile(self, killed_after: int | None = None) -> None:
        """Carry a plan out; or only its first requests, and start another controller."""
        todo = self.plan()
        # More is to come through.
        is_behind = self.seen.version != self.true.version or self.seen_kueue != self._true_kueue()
        self.dirty = is_behind or self.seen_pods != self.pods or self.owned.unseen
        self.timer = None
        if todo.requeue_after_seconds is not None:
            self.timer = self.now + timedelta(seconds=todo.requeue_after_seconds)
        actions = self._actions(todo)
        try:
            for action in actions[:killed_after]:
                action()
        except StaleError:
            self.dirty = True
        if killed_after is not None and killed_after < len(actions):
            self.start()
            self.dirty = True

    def _actions(self, todo: Plan) -> list[Callable[[], object]]:
        actions: list[Callable[[], object]] = []
        if todo.status is not None:
            actions.append(bound(self._store, todo.status))
        actions += [bound(self._emit, event.reason, event.identity) for event in todo.events]
        actions += [bound(self._apply, manifest) for manifest in todo.objects]
        secret = todo.launcher_secret
        actions += [bound(self.secrets.add, secret["metadata"]["name"])] if secret else []
        actions += [bound(self._create, manifest) for manifest in todo.creates]
        actions += [bound(self._patch, patch.pod, patch.body) for patch in todo.patches]
        actions += [bound(self.delete, name) for name in todo.deletes]
        if self.kueue and todo.workload:
            actions.append(bound(self._change_workload, self.kueue, todo.workload))
        return [*actions, *([bound(self.owned.remove, todo.obsolete)] if todo.obsolete else [])]

    def _store(self, status: dict[str, Any]) -> None:
        self.requests["status"] += 1
        if self.seen.version != self.true.version:
            raise StaleError
        check_status(self.true.status, status)
        self.true = replace(self.true, status=status, version=self.true.version + 1)
        self._see_job()
        self.dirty = True

    def _apply(self, manifest: dict[str, Any]) -> None:
        self.owned.apply(manifest)
        if manifest["kind"] == "Service":
            self.served = manifest["spec"]["selector"]["tfdist.dev/address-generation"]

    def _change_workload(self, kueue: SimulatedKueue, change: WorkloadChange) -> None:
        self.requests["workload"] += 1
        if kueue.reserved and (change.delete or "admission" in (change.status or {})):
            left = [pod.name for pod in self.pods.values() if not pod.ended and pod.name in self.seen_pods]
            assert not left, f"quota is released while {left} run"
        self.dirty = True
        kueue.execute(change, self.seen_kueue)
        self.seen_kueue = kueue.view()

    def _create(self, manifest: dict[str, Any]) -> None:
        self.requests["create"] += 1
        assert not self.seen.deleting, "a job that is deleted gets a pod"
        name = manifest["metadata"]["name"]
        check_secret(manifest, self.secrets)
        workload = self.seen_kueue.workload if self.seen_kueue else None
        assert not self.kueue or (workload and workload.admitted), "a pod was created that Kueue has not admitted"
        if name in self.pods:  # the API server rejects a second one
            return
        edit = next(v["value"] for v in manifest["spec"]["containers"][0]["env"] if v["name"] == "EDIT")
        group = self.owned.check_group(manifest, self.served_systems)
        self.made_of[name] = f"{edit} {group}"
        meta = manifest["metadata"] | {"uid": f"{name}-{self.requests['create']}", "resourceVersion": "1"}
        self._change(summarize(manifest | {"metadata": meta | {"creationTimestamp": rfc3339(self.now)}}))
        self.seen_pods[name] = self.pods[name]
        self._check_quota()
        check_one_specification(self.pods[name], self.pods.values(), self.true.status, self.made_of)

    def _check_quota(self) -> None:
        """Assert that no pod runs whose quota was released: other jobs may have it.

        A replica that is deleted is replaced while it ends, as by a Job of Kubernetes; Kueue counts both once.
        """
        if self.kueue is None or self.kueue.workload is None:
            return
        for each in self.kueue.workload["spec"]["podSets"]:
            released = self.kueue.reclaimable.get(each["name"], 0)
            mine = [pod for pod in self.pods.values() if pod_set_of(pod.role) == each["name"]]
            live = [pod.name for pod in mine if not pod.ended and not pod.deleting]
            assert not released or len(live) <= each["count"] - released, f"{released} were released, {live} run"

    def _patch(self, name: str, body: dict[str, Any]) -> None:
        self.requests["patch"] += 1
        if name in self.pods:
            annotated = body.get("metadata", {}).get("annotations", {}).get(CHECKPOINT_ANNOTATION)
            changed = {"checkpoint_at": annotated} if annotated else {"generation": ""}
            self._change(replace(self.pods[name], **changed))

    @property
    def ending(self) -> bool:
        """Whether the job has finished, and some of its pods have not."""
        return is_finished(self.true.status) and any(not pod.ended for pod in self.pods.values())

    def delete(self, name: str) -> None:
        """Delete a pod: one that runs gets its time to end."""
        self.requests["delete"] += 1
        pod = self.pods.get(name)
        if pod is not None and pod.state is PodState.RUNNING:
            self._change(replace(pod, deleting=True, deleted_at=rfc3339(self.now)))
        elif pod is not None:
            self._remove(name)

    def _emit(self, reason: str, identity: str) -> None:
        self.requests["event"] += 1
        self.events.append(f"{reason}-{identity}")

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
            trained: dict[str, Any] = {
                "evaluation": RESULT,
                "lastCheckpoint": saved,
                "exports": [{"which": "Final", "step": 1}],
            }
            fields = {0: trained, 42: {"last_checkpoint": saved}}.get(code, {})
            ended = replace(
                ended, exit_code=code, message=termination_message(**fields, message=f"ended at {self.now}")
            )
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
        """Have the user suspend or resume the job, and give it another size if it stands still."""
        edition = self.true.edition
        may_resize = edition.workers is not None and (suspend or edition.suspend or not self.true.status)
        self._write(replace(edition, suspend=suspend, workers=workers if may_resize else edition.workers))

    def edit(self, number: int, *, valid: bool) -> None:
        """Have the user change the pod template, or make an error that only the controller finds."""
        self._write(replace(self.true.edition, edit=number, valid=valid))

    def prioritize(self, priority: int) -> None:
        """Have the user give the job another priority class by its label."""
        self._write(replace(self.true.edition, priority=priority))

    def _write(self, edition: Edition) -> None:
        if edition != self.true.edition:
            labelled = replace(self.true.edition, priority=edition.priority)
            version, generation = self.true.version + 1, self.true.generation + (edition != labelled)
            self.true = replace(self.true, edition=edition, version=version, generation=generation)
            self.dirty = True

    def ask_for_restart(self, value: str) -> None:
        """Have the user annotate the job."""
        self.true = replace(self.true, restarted_at=value, version=self.true.version + 1)
        self.dirty = True

    def remove_job(self) -> None:
        """Have the user delete the job."""
        self.true = replace(self.true, deleting=True, version=self.true.version + 1)

    def lose_wake_ups(self) -> None:
        """Lose every event and timer that would have caused a reconcile."""
        self.dirty, self.timer = False, None
