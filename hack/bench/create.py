"""Creation: from the first job sent until all pods exist. There are no nodes, so only controllers do work."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from support.api import PODS

from bench.bulk import Request
from bench.cluster import Cluster
from bench.process import Process
from bench.results import NO_TARGET, Row, Samples, Target
from bench.subject import Subject, create, started
from tfdist_cluster import console


@dataclass(frozen=True, slots=True)
class Load:
    """Jobs created at once; `key` names it in samples."""

    key: str
    jobs: int
    workers: int
    name: str
    target: Target = NO_TARGET

    @property
    def pods(self) -> int:
        """Number of pods of all jobs."""
        return self.jobs * self.workers


_UNTIL: Final = "until all pods exist"
ONE: Final = Load("1x4", 1, 4, f"create: one job of 4 replicas, {_UNTIL}")
FIFTY: Final = Load("50x4", 50, 4, f"create: 50 jobs of 4 replicas, {_UNTIL}")
WIDE: Final = Load("1x400", 1, 400, f"create: one job of 400, {_UNTIL}", Target(ratio=1 / 5, text="<= 1/5 of the peer"))
MANY: Final = Load(
    "300x4", 300, 4, f"create: 300 jobs of 4 replicas, {_UNTIL}", Target(ratio=1 / 3, text="<= 1/3 of the peer")
)
LOADS: Final = (ONE, FIFTY, WIDE, MANY)


def measure(cluster: Cluster, subject: Subject, process: Process, load: Load, namespace: str) -> dict[str, float]:
    """Return the figures of one load by name; the namespace is empty afterwards."""
    cluster.namespace(namespace)
    usage_before, start = process.usage(), time.perf_counter()
    create(cluster, subject, namespace, load.jobs, load.workers)
    cluster.await_pods(namespace, load.pods)
    seconds = time.perf_counter() - start
    usage = process.usage() - usage_before
    console.info(
        f"    {subject.name} {load.key}: {seconds:.2f} s, {usage.requests:.0f} requests, {usage.cpu_millis:.0f} ms"
    )
    return {
        f"{load.key} seconds": seconds,
        f"{load.key} requests": usage.requests / load.jobs,
        f"{load.key} cpu": usage.cpu_millis / load.jobs,
        f"{load.key} memory": process.memory_megabytes(),
    }


def run(cluster: Cluster, ours: Subject, peer: Subject, default: Subject, repeats: int) -> list[Row]:
    """Measure both in turn, `repeats` times, and return the medians; the peer's default flags once."""
    samples = {subject.name: Samples() for subject in (ours, peer)}
    floors = Samples()
    for repeat in range(repeats):
        for subject in (ours, peer):
            with (
                console.step(f"create, {subject.name}, {repeat + 1} of {repeats}"),
                started(cluster, subject) as process,
            ):
                for load in LOADS:
                    namespace = f"create-{load.key}-{subject.name}-{repeat}"
                    samples[subject.name].add(measure(cluster, subject, process, load, namespace))
                    if subject is ours and load in (WIDE, MANY) and repeat == repeats - 1:
                        floors.add(_floor(cluster, namespace, load))
                    cluster.clear(namespace, subject.jobs)
    with console.step(f"create, {default.name}"), started(cluster, default) as process:
        namespace = f"create-{FIFTY.key}-{default.name}"
        unhurried = measure(cluster, default, process, FIFTY, namespace)
        cluster.clear(namespace, default.jobs)
    return _rows(samples[ours.name], samples[peer.name], floors, unhurried)


def _rows(ours: Samples, peer: Samples, floors: Samples, unhurried: dict[str, float]) -> list[Row]:
    rows = []
    for load in LOADS:
        key = f"{load.key} seconds"
        notes = [f"ours {ours.spread(key)}, peer {peer.spread(key)}"] if ours.spread(key) else []
        if (floor := floors.median(load.key)) is not None:
            notes.append(f"the same pods written straight, 64 in flight: {floor:.2f} s")
        if load is FIFTY:
            notes.append(f"the peer with its default flags: {unhurried[key]:.1f} s")
        rows.append(Row(load.name, ours.median(key), peer.median(key), "s", load.target, "; ".join(notes)))
    for what, unit in (("requests", "requests a job"), ("cpu", "ms of CPU a job"), ("memory", "MB")):
        key = f"{MANY.key} {what}"
        rows.append(Row(f"{MANY.name}: {what}", ours.median(key), peer.median(key), unit))
    return rows


def _floor(cluster: Cluster, namespace: str, load: Load) -> dict[str, float]:
    """Return how long it takes to write the pods of a load with no controller at all."""
    pods = cluster.api.do("GET", PODS.format(ns=namespace))["items"]
    path = PODS.format(ns=cluster.namespace(f"{namespace}-floor"))
    requests = [Request("POST", path, _bare(pod)) for pod in pods]
    start = time.perf_counter()
    cluster.bulk.send(requests)
    seconds = time.perf_counter() - start
    cluster.clear(f"{namespace}-floor", PODS)
    return {load.key: seconds}


_GIVEN_BY_SERVER: Final = ("namespace", "uid", "resourceVersion", "creationTimestamp", "managedFields", "generation")


def _bare(pod: dict[str, object]) -> dict[str, object]:
    """Return a pod as it was sent, with another owner: none, or the garbage collector would take it."""
    metadata = pod["metadata"]
    assert isinstance(metadata, dict)  # noqa: S101  narrows the type of JSON for the type checker
    left_out: Sequence[str] = (*_GIVEN_BY_SERVER, "ownerReferences", "labels")
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {key: value for key, value in metadata.items() if key not in left_out},
        "spec": pod["spec"],
    }
