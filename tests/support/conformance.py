"""TFJobs of the training operator's cases, converted, under the real controller against a real API server.

Two kinds of cases. A *situation* gives a job and its pods with phases, and all are there before the controller starts,
so that one reconciliation sees the whole situation, as the training operator's own tests arrange it. All situations of
a module share one namespace and one controller. The other kind submits a job to that controller and lets it live: fake
nodes run its pods, and the test ends, deletes or breaks them as a kubelet or a person would.

Pods are written as `worker-0:R worker-1,2:F137`, by the words of `support.kubelet`.
"""

import itertools
import json
import pathlib
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FunctionType, ModuleType
from typing import Any, Final, TypeVar

from support import kubelet
from support.api import JOBS, PODS, Api, Json
from support.controller import Controller, controller
from support.factories import FIRST_ATTEMPT
from support.polling import wait_for
from support.tfjobs import IMAGE, replica, tfjob
from tfdist.contract import Role
from tfdist.convert import convert
from tfdist.desired.objects import objects
from tfdist.render.names import ATTEMPT_LABEL, INDEX_LABEL, JOB_LABEL, ROLE_LABEL
from tfdist.validation import parse
from tfdist_operator.kube.client import FIELD_MANAGER

Test = TypeVar("Test", bound=Callable[..., None])

Edit = Callable[[Api, Json], None]
"""A change of a pod before it is created."""

NO_SCHEDULER: Final = "none.example.com"
"""A scheduler that does not exist: the pods of situations stay as the test has put them."""

SERVICES: Final = "/api/v1/namespaces/{ns}/services"

_KEYS: Final = {"chief": "Chief", "worker": "Worker", "ps": "PS", "evaluator": "Evaluator"}


def types(restart: str | None = None, **sizes: int) -> Json:
    """Return replica types by role, such as `chief=1, worker=4`, all with one restart policy."""
    return {_KEYS[role]: replica(size, restart_policy=restart) for role, size in sizes.items()}


@dataclass(frozen=True)
class Situation:
    """A TFJob, its pods, and the status that was stored before: by default none, or with pods the first attempt."""

    types: Json
    pods: str
    fields: Json = field(default_factory=dict)
    status: Json | None = None
    edit: Edit | None = None


def situation(
    types: Json,
    pods: str = "",
    *,
    status: Json | None = None,
    edit: Edit | None = None,
    **fields: Any,
) -> Callable[[Test], Test]:
    """Give a test a situation; its fixture `job` is the job, or `jobs` if it is given several.

    Args:
        types: replica types of the TFJob.
        pods: those that exist, and how they are.
        status: the job's stored status, as some earlier controller left it.
        edit: changes a pod before it is created.
        fields: other fields of the TFJob: `policy` (its `runPolicy`), `successPolicy`, ...
    """

    def give(test: Test) -> Test:
        vars(test).setdefault("situations", []).insert(0, Situation(types, pods, fields, status, edit))
        return test

    return give


@dataclass(frozen=True)
class ConvertedJob:
    """A converted job on the API server."""

    api: Api
    namespace: str
    name: str

    @property
    def path(self) -> str:
        return f"{JOBS.format(ns=self.namespace)}/{self.name}"

    @property
    def status(self) -> Json:
        status: Json = self.api.do("GET", self.path).get("status", {})
        return status

    def is_gone(self) -> bool:
        return self.api.send("GET", self.path).status_code == 404

    def condition(self, kind: str) -> Json | None:
        return next((c for c in self.status.get("conditions", ()) if c["type"] == kind), None)

    def holds(self) -> set[str]:
        """Return the types of the conditions that are True."""
        return {c["type"] for c in self.status.get("conditions", ()) if c["status"] == "True"}

    def await_status(self, what: str, accept: Callable[[Json], bool]) -> Json:
        """Return the status once it is as wanted."""
        observation = wait_for(f"{self.name}: {what}", lambda: _Observation(self.status, accept))
        return observation.status

    def await_phase(self, phase: str) -> Json:
        return self.await_status(f"phase {phase}", lambda status: status.get("phase") == phase)

    def await_attempt(self, attempt: int) -> Json:
        """Return the status once all replicas of an attempt run."""

        def runs(status: Json) -> bool:
            return status.get("attempt") == attempt and status.get("phase") == "Running"

        return self.await_status(f"attempt {attempt} to run", runs)

    def pods(self) -> dict[str, Json]:
        """Return the job's pods by replica: `worker-0`, and `worker-0-r1` of a later attempt."""
        path, selector = PODS.format(ns=self.namespace), f"{JOB_LABEL}={self.name}"
        items = self.api.do("GET", path, labelSelector=selector)["items"]
        return {str(pod["metadata"]["name"]).removeprefix(f"{self.name}-"): pod for pod in items}

    def live(self) -> set[str]:
        """Return the replicas that run or will: neither ended nor being deleted."""
        return {
            name
            for name, pod in self.pods().items()
            if "deletionTimestamp" not in pod["metadata"] and pod["status"]["phase"] in {"Pending", "Running"}
        }

    def await_pods(self, what: str, *names: str) -> None:
        """Wait until exactly the pods of these replicas exist."""
        wait_for(f"{self.name}: {what}", lambda: _Observation(self.pods(), lambda pods: set(pods) == set(names)))

    def node_of(self, name: str) -> str:
        """Return the node of a pod; nothing while there is none."""
        return str(self.pods().get(name, {}).get("spec", {}).get("nodeName", ""))

    def pod_path(self, name: str) -> str:
        return f"{PODS.format(ns=self.namespace)}/{self.name}-{name}"

    def end(self, pods: str) -> None:
        """Let containers end: `worker-0:S worker-1:F137`."""
        for name, word in kubelet.words(pods):
            kubelet.play(self.api, self.pod_path(name), word)

    def delete_pod(self, name: str) -> None:
        self.api.do("DELETE", self.pod_path(name))

    def change(self, **spec: Any) -> Json:
        return self.api.do("PATCH", self.path, {"spec": spec}, "merge-patch")

    def has_service(self) -> bool:
        return self.api.send("GET", f"{SERVICES.format(ns=self.namespace)}/{self.name}").ok

    def events(self) -> list[str]:
        """Return the reasons of the events on the job."""
        items = self.api.do("GET", f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events")["items"]
        return [e["reason"] for e in items if e["regarding"].get("name") == self.name]


@dataclass(frozen=True)
class _Observation:
    """A status, or pods, false until they are as wanted: what `wait_for` shows in its complaint."""

    status: Json
    accept: Callable[[Json], bool]

    def __bool__(self) -> bool:
        return self.accept(self.status)


class ConformanceCluster:
    """A namespace with the situations of a module, and a controller for it alone."""

    def __init__(self, api: Api, namespace: str, silent_node: str) -> None:
        self.api = api
        self.namespace = namespace
        self.silent_node = silent_node
        self.situations: dict[str, list[ConvertedJob]] = {}
        self.process: Controller | None = None
        self._numbers = itertools.count()

    def submit(
        self, types: Json, name: str | None = None, labels: dict[str, str] | None = None, **fields: Any
    ) -> ConvertedJob:
        """Create the job that a TFJob with these labels becomes; fake nodes run its pods."""
        source = tfjob(types, name=name or f"job-{next(self._numbers)}", **fields)
        source["metadata"] |= {"namespace": self.namespace, "labels": labels or {}}
        return self.create(convert(source).manifest)

    def create(self, manifest: Json) -> ConvertedJob:
        """Create a job that is converted already."""
        self.api.create_job(manifest)
        return ConvertedJob(self.api, self.namespace, manifest["metadata"]["name"])

    def prepare(self, tests: Sequence[FunctionType]) -> None:
        """Make the situations of tests; no kubelet runs their pods."""
        situations = [(test.__name__, s) for test in tests for s in vars(test).get("situations", ())]
        names = [f"{_prefix(test)}-{i}" for i, (test, _) in enumerate(situations)]
        with ThreadPoolExecutor(4) as pool:
            jobs = list(pool.map(self._arrange, names, [s for _, s in situations]))
        for (test, _), job in zip(situations, jobs, strict=True):
            self.situations.setdefault(test, []).append(job)

    def _arrange(self, name: str, situation: Situation) -> ConvertedJob:
        unscheduled = json.loads(json.dumps(situation.types))
        for of_type in unscheduled.values():
            of_type["template"]["spec"]["schedulerName"] = NO_SCHEDULER
        job = self.submit(unscheduled, name, **situation.fields)
        stored = self.api.job(self.namespace, name)
        service, *others = objects(parse(stored), IMAGE)
        pods = {kubelet.replica_of(o, name): o for o in others if o["kind"] == "Pod"}
        if situation.pods:
            path = f"{SERVICES.format(ns=self.namespace)}/{name}"
            self.api.do("PATCH", path, service, "apply", fieldManager=FIELD_MANAGER)
        for replica_name, word in kubelet.words(situation.pods):
            pod = pods.get(replica_name) or _beyond(pods, name, replica_name)
            self._place(job, pod, word, situation.edit)
        status = situation.status or (FIRST_ATTEMPT if situation.pods else None)
        if status is not None:
            self.api.do("PATCH", f"{job.path}/status", {"status": status}, "merge-patch")
        return job

    def _place(self, job: ConvertedJob, pod: Json, word: str, edit: Edit | None) -> None:
        if edit:
            edit(self.api, pod)
        if kubelet.is_deleting(word):
            pod["spec"]["nodeName"] = self.silent_node
        self.api.do("POST", PODS.format(ns=self.namespace), pod)
        kubelet.play(self.api, job.pod_path(kubelet.replica_of(pod, job.name)), word)

    def await_reconciliations(self) -> None:
        """Wait until the controller has reconciled as often as there are situations, so each of them once."""
        count = sum(map(len, self.situations.values()))
        wait_for("a reconciliation of every situation", lambda: self.reconciliations() >= count)

    def reconciliations(self) -> int:
        """Return how many times the controller has reconciled a job."""
        assert self.process is not None
        text = self.process.get("/metrics").text
        match = re.search(r"^tfdist_reconcile_duration_seconds_count (\S+)$", text, re.MULTILINE)
        return int(float(match.group(1))) if match else 0


def _prefix(test: str) -> str:
    match = re.match(r"test_(c\d+)_", test)
    return match.group(1) if match else "d"


def _beyond(pods: dict[str, Json], job: str, name: str) -> Json:
    """Return the pod of a replica that the job does not have: one of the same role with another index."""
    role, index = name.rsplit("-", 1)
    pod: Json = json.loads(json.dumps(pods[f"{Role(role)}-0"]))
    pod["metadata"]["name"] = f"{job}-{name}"
    pod["metadata"]["labels"] |= {ROLE_LABEL: role, INDEX_LABEL: index, ATTEMPT_LABEL: "0"}
    return pod


@contextmanager
def conformance_cluster(
    api: Api, module: ModuleType, namespace: str, folder: pathlib.Path
) -> Iterator[ConformanceCluster]:
    """Make the situations of a module's tests, then run a controller for their namespace until the block ends."""
    account = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
    wait_for("the namespace's account, without which it takes no pods", lambda: api.send("GET", account).ok)
    with kubelet.silent_node(api) as node:
        cluster = ConformanceCluster(api, namespace, node)
        cluster.prepare([thing for thing in vars(module).values() if isinstance(thing, FunctionType)])
        # counters are written late, so that no test passes only because it was slow
        with controller(api, folder, TFDIST_NAMESPACE=namespace, TFDIST_PROGRESS_WRITE_SECONDS="60") as running:
            cluster.process = running
            yield cluster
            running.process.kill()  # a graceful shutdown takes seconds, and other tests cover it
