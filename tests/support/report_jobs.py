"""Running jobs in the stores of a controller, as those see them who request reports from their pods."""

import asyncio

from support.factories import UID, manifest
from support.raw import raw_pod
from tfdist_operator.cache.job_cache import JobCache
from tfdist_operator.cache.pod_cache import PodCache
from tfdist_operator.cache.runtime_state import RuntimeStateStore
from tfdist_operator.replica_reports.poller import ReportPoller


def running_leaders(jobs: JobCache) -> RuntimeStateStore:
    """Return the states of jobs whose last plan has named worker 0 as the leader."""
    states = RuntimeStateStore()
    for job in jobs.all():
        states.get(job.key, job.uid).leader = f"{job.key.name}-worker-0"
    return states


def jobs_and_pods(*ips: str) -> tuple[JobCache, PodCache]:
    """Return running jobs of one worker each, by the addresses of their pods."""
    jobs, pods = JobCache(), PodCache(lambda _: None)
    for number, ip in enumerate(ips):
        name, uid = f"job-{number}", f"{UID[:-4]}{number:04}"
        document = manifest(name, worker={"replicas": 1})
        document["metadata"] |= {"uid": uid, "resourceVersion": "5", "generation": 1}
        jobs.upsert(document)
        pod = raw_pod(6, uid=uid, job=name, job_uid=uid)
        pod["status"] = {"phase": "Running", "podIP": ip}
        pods.upsert(pod)
    return jobs, pods


async def poll_once(poller: ReportPoller, *, evaluators: bool) -> None:
    """Have `poller` start one round, and wait until every poll of it has ended."""
    await poller.start_round(evaluators=evaluators)
    await asyncio.gather(*poller._in_flight.values())
