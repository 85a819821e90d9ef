"""A reconciler with its stores, before a fake API server: what one test of reconciling needs."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from support.factories import INSTALLATION, NOW, UID, manifest
from support.fake_api import FakeApi, Json, Rejection, served
from tfdist.api.gang_system import Availability, GangSystem
from tfdist.desired.owned_kinds import OWNED_KINDS
from tfdist.render.owned_kind import OwnedKind
from tfdist_operator.budget import Budget
from tfdist_operator.cache.job_cache import JobCache
from tfdist_operator.cache.kueue import Kueue
from tfdist_operator.cache.owned_cache import OwnedObjectCache
from tfdist_operator.cache.pod_cache import PodCache
from tfdist_operator.cache.runtime_state import RuntimeStateStore
from tfdist_operator.kube.client import ApiClient
from tfdist_operator.kube.keys import ALL_NAMESPACES, NamespacedName
from tfdist_operator.kube.workqueue import WorkQueue
from tfdist_operator.reconcile import Dependencies, Reconciler
from tfdist_operator.replica_reports.diagnosis import Diagnosis
from tfdist_operator.replica_reports.poller import PollRate
from tfdist_operator.replica_reports.report_client import ReportClient
from tfdist_operator.requests.owned_requests import OwnedRequests
from tfdist_operator.requests.resources import ResourceClient
from tfdist_operator.requests.workload_requests import WorkloadRequests

KEY = NamespacedName("team", "fashion")
JOB = "/apis/tfdist.dev/v1/namespaces/team/tfdistjobs/fashion"
SERVICE = "/api/v1/namespaces/team/services/fashion"
POLICY = "/apis/networking.k8s.io/v1/namespaces/team/networkpolicies/fashion"
EVENTS = "/api/v1/namespaces/team/events"
PODS = "/api/v1/namespaces/team/pods"
_MEASURE = Budget.run


class Bench:
    """A reconciler with its stores, before a fake API server."""

    def __init__(self, api: FakeApi, client: ApiClient, diagnosis: Diagnosis) -> None:
        self.api = api
        self._client = client
        self._resources = ResourceClient(client, "test")
        self._diagnosis = diagnosis
        self.systems: dict[GangSystem, Availability] = {}
        self.now = NOW
        self.clock = 1000.0
        self.start()

    def another(self) -> "Bench":
        """Return a second controller before the same API server, which knows what is stored."""
        return Bench(self.api, self._client, self._diagnosis)

    def start(self, *, pods: bool = True) -> None:
        """Begin as a new process, which knows what is stored; without `pods`, its watch of them has brought none."""
        self.jobs, self.queue = JobCache(), WorkQueue[NamespacedName]()
        self.pods = PodCache(self.queue.add)
        self.states = RuntimeStateStore()
        self.owned = {kind: OwnedObjectCache(kind, self.queue.add) for kind in OWNED_KINDS}
        self.kueue = Kueue(self._client, [ALL_NAMESPACES], self.queue.add, lambda: None)
        deps = Dependencies(
            jobs=self.jobs,
            pods=self.pods,
            owned=self.owned,
            systems=lambda: self.systems,
            kueue=self.kueue,
            queue=self.queue,
            resources=self._resources,
            owned_requests=OwnedRequests(self._client),
            workload_requests=WorkloadRequests(self._client, lambda: self.kueue.version),
            states=self.states,
            diagnosis=self._diagnosis,
            controller="tfdist-system.test",
            now=lambda: self.now,
            clock=lambda: self.clock,
        )
        self.expensive = deps.expensive
        self._reconciler = Reconciler(deps, INSTALLATION, PollRate(2, 10))
        if JOB in self.api.objects:
            self.jobs.upsert(self.api.objects[JOB])
        for path, stored in self.api.objects.items():
            if pods and "/pods/" in path:
                self.pods.upsert(stored)
        self.watch()
        for cache in self.owned.values():
            cache.begin()

    def watch(self) -> None:
        """Let the watches of owned objects deliver everything."""
        for kind, cache in self.owned.items():
            objects = {p: o for p, o in self.api.objects.items() if _is_of(kind, p)}
            for stored in objects.values():
                cache.on_update(stored)
            cache.replace({o["metadata"]["uid"] for o in objects.values()}, self.api.version)

    def job(self, **content: object) -> None:
        """Let there be a job."""
        document = manifest() | content
        document["metadata"] |= {"uid": UID, "generation": 1}
        self.jobs.upsert(self.api.put(JOB, document))

    def change(self, **spec: object) -> None:
        """Let the user change the specification of the job."""
        former = self.api.objects[JOB]
        changed = former | {"spec": former["spec"] | spec}
        changed["metadata"] = former["metadata"] | {"generation": former["metadata"]["generation"] + 1}
        self.jobs.upsert(self.api.put(JOB, changed))

    async def reconcile(self) -> bool:
        """Reconcile once and return whether that succeeded."""
        succeeded = await self._reconciler.reconcile(KEY)
        job = self.jobs.get(KEY)
        if Budget.run is _MEASURE and job is not None:
            # A pause of the garbage collector within the plan would move the job to the queue of expensive ones.
            self.states.get(KEY, job.uid).plan_seconds = 0.0
        return succeeded

    async def reconcile_expensive(self) -> bool:
        """Reconcile once as an expensive job, and return whether that succeeded."""
        return await self._reconciler.reconcile_expensive(KEY)

    def run(self, *replicas: str) -> None:
        """Let the containers of pods run."""
        for replica in replicas:
            path = f"/api/v1/namespaces/team/pods/fashion-{replica}"
            self.pods.upsert(self.api.put(path, self.api.objects[path] | {"status": {"phase": "Running"}}))

    def fail(self, replica: str) -> None:
        """Let the container of a pod end with 137."""
        self.pods.upsert(self._end(replica, 137))

    def remove(self, replica: str, exit_code: int) -> None:
        """Let the container of a pod end, and remove the pod; the watch delivers only the deletion."""
        last = self._end(replica, exit_code)
        del self.api.objects[f"{PODS}/fashion-{replica}"]
        self.pods.on_delete(last)

    def _end(self, replica: str, exit_code: int) -> Json:
        path, times = f"{PODS}/fashion-{replica}", {"finishedAt": "2030-01-02T03:04:00Z"}
        ended = {"name": "tensorflow", "state": {"terminated": {"exitCode": exit_code} | times}}
        status = {"phase": "Failed" if exit_code else "Succeeded", "containerStatuses": [ended]}
        return self.api.put(path, self.api.objects[path] | {"status": status})


def _is_of(kind: OwnedKind, path: str) -> bool:
    return path.startswith(f"/{kind.path}/") and f"/{kind.plural}/" in path


@asynccontextmanager
async def bench_served() -> AsyncIterator[Bench]:
    """Give a bench whose API server is empty, until the block ends."""
    async with served() as (api, client):
        diagnosis = Diagnosis(ReportClient())
        try:
            yield Bench(api, client, diagnosis)
        finally:
            await diagnosis.close()


def rejecting_pods(message: str) -> Rejection:
    """Reject each request that creates a pod."""
    create_error = (403, "Forbidden", message, "")
    return lambda method, path: create_error if method == "POST" and path.endswith("/pods") else None
