"""The tasks that only the leader runs: workers that reconcile jobs and sweeps, and the poller of reports."""

from typing import Final

from tfdist_operator import config
from tfdist_operator.cache.owned_cache import controller_label
from tfdist_operator.cache.runtime_state import RuntimeStateStore
from tfdist_operator.caches import Caches
from tfdist_operator.kube.client import ApiClient
from tfdist_operator.reconcile import Dependencies, Reconciler
from tfdist_operator.replica_reports.diagnosis import Diagnosis
from tfdist_operator.replica_reports.poller import PollRate, ReportPoller
from tfdist_operator.replica_reports.report_client import ReportClient
from tfdist_operator.requests.owned_requests import OwnedRequests
from tfdist_operator.requests.resources import ResourceClient
from tfdist_operator.requests.workload_requests import WorkloadRequests
from tfdist_operator.supervisor import TaskSupervisor
from tfdist_operator.sweeps import SweepDependencies, SweepReconciler, SweepRequests

_EXPENSIVE_WORKERS: Final = 4
"""Requests of one expensive job are sent while the thread plans another one."""
_SWEEP_WORKERS: Final = 4


def start_leader_tasks(
    supervisor: TaskSupervisor, caches: Caches, client: ApiClient, settings: config.Config, instance: str
) -> Diagnosis:
    """Start the leader's tasks; return the diagnosis, which must be closed after them.

    Args:
        supervisor: runs them.
        caches: of this replica.
        client: of the API server, fenced by leadership.
        settings: of the installation.
        instance: name of this replica, for events.
    """
    states, reports = RuntimeStateStore(), ReportClient()
    diagnosis = Diagnosis(reports)
    resources = ResourceClient(client, instance)
    deps = Dependencies(
        jobs=caches.jobs,
        pods=caches.pods,
        owned=caches.owned,
        systems=caches.systems,
        kueue=caches.kueue,
        queue=caches.queue,
        resources=resources,
        owned_requests=OwnedRequests(client),
        workload_requests=WorkloadRequests(client, lambda: caches.kueue.version),
        states=states,
        diagnosis=diagnosis,
        controller=controller_label(settings.lease_namespace, settings.lease_name),
    )
    rate = PollRate(settings.progress_poll_seconds, settings.progress_write_seconds)
    reconciler = Reconciler(deps, settings.installation, rate)
    poller = ReportPoller(caches.jobs, caches.pods, states, reports, caches.queue.add_after, deps.now, rate)
    supervisor.start("progress", poller.run())
    for number in range(settings.workers):
        supervisor.start(f"worker {number}", caches.queue.run_worker(reconciler.reconcile))
    for number in range(_EXPENSIVE_WORKERS):
        work = deps.expensive.run_worker(reconciler.reconcile_expensive)
        supervisor.start(f"worker of expensive jobs {number}", work)
    sweeps = SweepDependencies(
        sweeps=caches.sweeps.cache,
        jobs=caches.jobs,
        queue=caches.sweeps.queue,
        requests=SweepRequests(client),
        resources=resources,
    )
    sweep_reconciler = SweepReconciler(sweeps)
    for number in range(_SWEEP_WORKERS):
        supervisor.start(f"sweeps {number}", caches.sweeps.queue.run_worker(sweep_reconciler.reconcile))
    return diagnosis
