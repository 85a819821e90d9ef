"""A job's life on fake nodes: until its pods run, until it succeeds, and after one of its pods has failed."""

import time
from typing import Any, Final

from support.api import PODS

from bench.cluster import RARE_POLL_SECONDS, Cluster, at, wait
from bench.process import Process
from bench.results import Row, Samples, Target
from bench.subject import Subject, create, ended, started
from tfdist_cluster import console

Json = dict[str, Any]

RUNNING_JOBS: Final = 300
SUCCEEDING_JOBS: Final = 20
WORKERS: Final = 4
ALLOWANCE: Final = 11
"""Requests that a job may cost beyond one for each replica: 9, and 2 for its PodGroup."""
RESTARTS: Final = 7


def run(cluster: Cluster, ours: Subject, peer: Subject) -> list[Row]:
    """Measure both and return the rows."""
    samples = {subject.name: _measure(cluster, subject) for subject in (ours, peer)}
    our_samples, peer_samples = samples[ours.name], samples[peer.name]

    def row(name: str, key: str, unit: str, target: Target | None = None, note: str = "") -> Row:
        return Row(name, our_samples.median(key), peer_samples.median(key), unit, target or Target(), note)

    limit = WORKERS + ALLOWANCE
    failure = "restart: one of 4 replicas ends with exit code 137"
    gang = "ours replaces the gang of 4, the peer the pod that failed"
    return [
        row(f"create: {RUNNING_JOBS} jobs of 4 replicas on fake nodes, until all pods run", "running", "s"),
        row(
            f"API requests a job of {WORKERS} replicas, from creation to success",
            "requests", "requests", Target(value=limit, text=f"<= N + {ALLOWANCE} = {limit}"),
        ),
        row(f"CPU a job of {WORKERS} replicas, from creation to success", "cpu", "ms"),
        row(f"{failure}, until its replacements exist", "restarted", "s", note=gang),
        row(f"{failure}, until all replicas run again", "running again", "s", note=gang),
    ]  # fmt: skip


def _measure(cluster: Cluster, subject: Subject) -> Samples:
    samples = Samples()
    with console.step(f"life of jobs, {subject.name}"), started(cluster, subject) as process:
        samples.add(_until_running(cluster, subject))
        samples.add(_until_success(cluster, subject, process))
        for number in range(RESTARTS):
            samples.add(_restart(cluster, subject, f"restart-{subject.name}-{number}"))
    console.info(f"    {subject.name}: {samples.by_name}")
    return samples


def _until_running(cluster: Cluster, subject: Subject) -> dict[str, float]:
    namespace = cluster.namespace(f"running-{subject.name}")
    start = time.perf_counter()
    create(cluster, subject, namespace, RUNNING_JOBS, WORKERS)
    cluster.await_running(namespace, RUNNING_JOBS * WORKERS)
    seconds = time.perf_counter() - start
    cluster.clear(namespace, subject.jobs)
    return {"running": seconds}


def _until_success(cluster: Cluster, subject: Subject, process: Process) -> dict[str, float]:
    """Count requests: of the controller itself, for everything that it does about a job."""
    namespace = cluster.namespace(f"success-{subject.name}")
    process.wait_quiet()
    usage_before = process.usage()
    create(cluster, subject, namespace, SUCCEEDING_JOBS, WORKERS)
    cluster.await_running(namespace, SUCCEEDING_JOBS * WORKERS)
    await_condition(cluster, subject, namespace, "Running")
    names = [pod["metadata"]["name"] for pod in cluster.api.pods(namespace)]
    cluster.bulk.send([ended(namespace, name, 0) for name in names], in_flight=8)
    await_condition(cluster, subject, namespace, "Succeeded")
    process.wait_quiet()
    usage = process.usage() - usage_before
    cluster.clear(namespace, subject.jobs)
    return {"requests": usage.requests / SUCCEEDING_JOBS, "cpu": usage.cpu_millis / SUCCEEDING_JOBS}


def await_condition(cluster: Cluster, subject: Subject, namespace: str, condition: str, seconds: float = 120) -> None:
    """Wait until every job of a namespace reports a condition as true."""

    def all_report() -> bool:
        jobs = cluster.api.do("GET", subject.jobs.format(ns=namespace))["items"]
        return all(subject.is_(job, condition) for job in jobs)

    wait(all_report, f"all jobs of {subject.name} to be {condition}", seconds, RARE_POLL_SECONDS)


def _restart(cluster: Cluster, subject: Subject, namespace: str) -> dict[str, float]:
    cluster.namespace(namespace)
    create(cluster, subject, namespace, 1, WORKERS)
    cluster.await_running(namespace, WORKERS)
    await_condition(cluster, subject, namespace, "Running")
    cluster.settle()
    pods = cluster.api.pods(namespace)
    old = {pod["metadata"]["uid"] for pod in pods}
    failing_pod = next(pod for pod in pods if "worker-1" in pod["metadata"]["name"])
    new = subject.replaced(WORKERS)
    start = time.perf_counter()
    cluster.bulk.send([ended(namespace, failing_pod["metadata"]["name"], 137)])
    wait(lambda: _fresh(cluster, namespace, old) >= new, f"replacements by {subject.name}")
    exist = time.perf_counter() - start
    wait(lambda: _fresh(cluster, namespace, old, "Running") >= new, "them to run")
    seconds_to_run = time.perf_counter() - start
    cluster.clear(namespace, subject.jobs)
    return {"restarted": exist, "running again": seconds_to_run}


def _fresh(cluster: Cluster, namespace: str, old: set[str], phase: str = "") -> int:
    """Return the number of pods that are not old ones; with a phase, of those in it."""
    query = {"fieldSelector": f"status.phase={phase}"} if phase else {}
    pods: list[Json] = cluster.api.do("GET", at(PODS.format(ns=namespace), **query))["items"]
    return sum(pod["metadata"]["uid"] not in old for pod in pods)
