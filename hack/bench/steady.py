"""Ten thousand running pods: what they cost while only reports come in, and how soon a new controller is ready."""

import time
from dataclasses import dataclass
from typing import Final

from support.api import PODS

from bench import reports
from bench.cluster import RARE_POLL_SECONDS, Cluster, wait
from bench.lifecycle import await_condition
from bench.process import Process
from bench.results import NO_TARGET, Row, Target
from bench.subject import Subject, create, started
from tfdist_cluster import console

TARGET_PODS: Final = 10_000
WINDOW_SECONDS: Final = 30
_SETTLE_SECONDS: Final = 30.0
"""After the last pod runs, until the last write about that is over, reports and their writes are in their rhythm."""


@dataclass(frozen=True, slots=True)
class Size:
    """How many jobs of how many workers."""

    jobs: int
    workers: int

    @property
    def pods(self) -> int:
        """Number of pods."""
        return self.jobs * self.workers

    def target(self, value: float, text: str) -> Target:
        """Return a target, which a measurement with fewer pods cannot meet."""
        return Target(value=value, text=text) if self.pods >= TARGET_PODS else NO_TARGET


def run(cluster: Cluster, ours: Subject, peer: Subject, size: Size) -> list[Row]:
    """Measure both, and the restart of ours: the peer does not report when its caches are complete."""
    with console.step(f"{size.pods} running pods, {ours.name}"), reports.served():
        figures = _steady(cluster, ours, size)
        restart, writes = _restart(cluster, ours, size)
        cluster.clear(_namespace(ours), ours.jobs)
    with console.step(f"{size.pods} running pods, {peer.name}"):
        peer_figures = _steady(cluster, peer, size)
    name = f"steady state: {size.pods:,} running pods, all reporting"
    load = f"{size.jobs:,} jobs of {size.workers}; the peer reads no reports"
    note = f"{writes:.0f} objects were created or deleted" if writes else "nothing was created or deleted"
    return [
        Row(f"{name}: CPU", figures["cpu"], peer_figures["cpu"], "% of a core", size.target(12, "<= 12 %"), load),
        Row(f"{name}: memory", figures["memory"], peer_figures["memory"], "MB", size.target(150, "<= 150 MB"), load),
        Row(f"{name}: requests", figures["requests"], peer_figures["requests"], "requests a minute", note=load),
        Row(
            f"restart with {size.pods:,} pods, until ready and correct",
            restart, None, "s", size.target(5, "<= 5 s"), note,
        ),
    ]  # fmt: skip


def _namespace(subject: Subject) -> str:
    return f"steady-{subject.name}"


def _steady(cluster: Cluster, subject: Subject, size: Size) -> dict[str, float]:
    with started(cluster, subject) as process:
        namespace = cluster.namespace(_namespace(subject))
        with console.step(f"make {size.pods} pods run", expected_seconds=120):
            create(cluster, subject, namespace, size.jobs, size.workers)
            cluster.await_running(namespace, size.pods, seconds=1800)
            await_condition(cluster, subject, namespace, "Running", 600)
        time.sleep(_SETTLE_SECONDS)
        usage_before = process.usage()
        time.sleep(WINDOW_SECONDS)
        usage = process.usage() - usage_before
        figures = {
            "cpu": usage.cpu_millis / WINDOW_SECONDS / 10,
            "memory": process.memory_megabytes(),
            "requests": usage.requests * 60 / WINDOW_SECONDS,
        }
    console.info(f"    {subject.name}: {figures}")
    return figures


def _restart(cluster: Cluster, ours: Subject, size: Size) -> tuple[float, float]:
    """Return the seconds until a new controller has reconciled all jobs, and how many objects it created or deleted."""
    pods = cluster.count(PODS.format(ns=_namespace(ours)))
    start = time.perf_counter()
    with ours.start(cluster) as process:
        # polled rarely: serving metrics costs the controller time that is measured here
        wait(lambda: _has_synced(process, size), f"{ours.name} to know {pods} pods", 300, RARE_POLL_SECONDS)
        seconds = time.perf_counter() - start
        requests = sum(process.metric(process.counter, f'verb="{verb}"') for verb in ("POST", "DELETE"))
    return seconds, requests


def _has_synced(process: Process, size: Size) -> bool:
    knows_pods = process.metric("tfdist_cached_objects", 'resource="pods"') >= size.pods
    knows_jobs = process.metric("tfdist_jobs", "Running") >= size.jobs
    # the queue is first in, first out: this many reconciles include every job, whatever reports arrived since
    reconciled = process.metric("tfdist_reconcile_duration_seconds_count") >= size.jobs
    return knows_pods and knows_jobs and reconciled
