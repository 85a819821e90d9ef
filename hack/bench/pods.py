"""How long training stands still when its program is killed, on real pods: `make bench-pods`.

On the kind cluster: in place under launchers, the same with standby processes (`runPolicy.standby`), with new pods,
and under the training operator with `OnFailure`, whose pods start their containers again. Every gang runs the demo's
training; what counts is the time from the kill to the next step in the log of worker 0, both by the clock of
the one machine.
"""

import argparse
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import yaml
from support.api import Api, Json
from support.e2e import Cluster, example, prepared
from support.failing_jobs import JobNamespace
from support.polling import wait_for
from support.rounds import Rounds, training

from bench import cluster as control_planes
from bench import report
from bench.bulk import Bulk
from bench.peer import Peer
from bench.results import NO_TARGET, Row, Target, median
from tfdist_cluster import console
from tfdist_cluster.paths import State
from tfdist_demo import target
from tfdist_images import build, content

NAME: Final = "bench-recovery"
PATIENCE: Final = Target(value=3.0, text="<= 3 s")
POLL_SECONDS: Final = 8.0
"""Between two reads of the log, which has the times of steps: reading must not slow a recovery down."""
_POLICY: Final = {"backoffLimit": 20}
PEER_KILLS: Final = 3
"""The kubelet waits twice as long before each further start of a container."""


@dataclass(frozen=True, slots=True)
class Recoveries:
    """Seconds from each kill to the next step."""

    seconds: tuple[float, ...]

    def row(self, name: str, goal: Target = NO_TARGET, peer: "Recoveries | None" = None) -> Row:
        """Return the median as a row, with the worst in the remark."""
        note = f"worst {max(self.seconds):.1f} s of {len(self.seconds)}"
        other = median(peer.seconds) if peer else None
        if peer:
            note += f"; the peer's worst {max(peer.seconds):.1f} s of {len(peer.seconds)}"
        return Row(name, median(self.seconds), other, "s", goal, note)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and store; 0 even if a target is missed."""
    parser = argparse.ArgumentParser(prog="bench.pods", description="Measures recovery on the kind cluster")
    parser.add_argument("--workers", nargs="+", type=int, default=[2, 4], help="default: 2 4")
    parser.add_argument("--kills", type=int, default=10, help="of each gang under launchers; default: %(default)s")
    parser.add_argument("--without-peer", action="store_true", help="leave out the training operator")
    parser.add_argument("--output", type=Path, default=report.RESULTS, help="default: hack/bench/results.json")
    options = parser.parse_args(arguments)
    began, load = datetime.now(UTC), os.getloadavg()[0]
    images = {
        image.recipe.name: content.image_name(image.recipe, image.digest)
        for image in build.images_now(tuple(content.RECIPES.values()))
    }
    with prepared(images) as cluster:
        rows = [row for workers in options.workers for row in _measure(cluster, images, workers, options)]
    results = report.document(rows, began, load)
    print(report.show(results))
    report.write(results, options.output, report.RECOVERY)
    return 0


def _measure(cluster: Cluster, images: dict[str, str], workers: int, options: argparse.Namespace) -> list[Row]:
    with console.step(f"{workers} workers in place"):
        in_place = _measure_ours(cluster, workers, options.kills)
    with console.step(f"{workers} workers in place, with standby processes"):
        reserve = _measure_ours(cluster, workers, options.kills, runPolicy={**_POLICY, "standby": True})
    with console.step(f"{workers} workers, new pods"):
        new_pods = _measure_ours(cluster, workers, PEER_KILLS, command=["python", "-m", "tfdist_trainer"])
    peer = None
    if not options.without_peer:
        with console.step(f"{workers} workers under the training operator"):
            peer = _peers(cluster, images["trainer"], workers)
    title = f"kill -9 of one of {workers} workers, until the next step"
    return [
        in_place.row(f"{title}: in place", PATIENCE, peer),
        reserve.row(f"{title}: in place, standby", PATIENCE, peer),
        new_pods.row(f"{title}: new pods", peer=peer),
    ]


def _measure_ours(cluster: Cluster, workers: int, kills: int, **spec: Any) -> Recoveries:
    rounds = Rounds(JobNamespace(cluster), NAME, poll_seconds=POLL_SECONDS)
    with training(rounds, _job(workers, **spec)) as gang:
        return _recoveries(gang, workers, kills, whole="command" in spec)


def _job(workers: int, **spec: Any) -> Json:
    """Return the demo's training without an end, which saves a checkpoint every few seconds."""
    job = example(NAME, epochs=10**6)
    del job["spec"]["evaluation"]
    del job["spec"]["checkpoint"]["everySteps"]
    job["spec"]["checkpoint"]["everySeconds"] = 2
    resources = {"requests": {"cpu": "100m", "memory": "300Mi"}}
    job["spec"] |= {"worker": {"replicas": workers}, "runPolicy": _POLICY, "resources": resources} | spec
    return job


def _recoveries(gang: Rounds, workers: int, kills: int, *, whole: bool = False) -> Recoveries:
    """Kill one after the other; with `whole` the container's own process is killed."""
    recoveries = []
    for number in range(kills):
        victim = f"worker-{(number + 1) % workers}"
        killed_at = gang.kill_program(victim, of_container=whole)
        first = gang.steps_after(killed_at)
        recoveries.append((datetime.fromisoformat(first) - datetime.fromisoformat(killed_at)).total_seconds())
        gang.steps_after(first, saved=True)
    return Recoveries(tuple(recoveries))


def _peers(cluster: Cluster, image: str, workers: int) -> Recoveries:
    with _training_operator(), _tfjob(cluster, image, workers) as gang:
        return _recoveries(gang, workers, PEER_KILLS, whole=True)


@contextmanager
def _training_operator() -> Iterator[None]:
    """Run the peer next to the controller until the block ends."""
    state, kubeconfig = State.from_environment(), Path(target.choose().kubeconfig)
    cluster = control_planes.Cluster(state, state, Api(kubeconfig), Bulk.of(kubeconfig), kubeconfig)
    peer = Peer("training-operator", ())
    peer.install(cluster)
    with peer.start(cluster):
        yield


class Foreign(Rounds):
    """The pods of a TFJob."""

    def pods(self) -> dict[str, Json]:
        """Return its pods by replica."""
        label = f"training.kubeflow.org/job-name={self.name}"
        pods = self.cluster.kubectl.pods(self.cluster.namespace, label)
        return {str(pod["metadata"]["name"]).removeprefix(f"{self.name}-"): pod for pod in pods}

    def described(self) -> str:
        """Return what `kubectl describe` prints of the pods."""
        return self.cluster.kubectl.run("describe", "pods", f"--namespace={self.cluster.namespace}")


@contextmanager
def _tfjob(cluster: Cluster, image: str, workers: int) -> Iterator[Foreign]:
    """Run the same program as a TFJob until the block ends."""
    in_namespace = f"--namespace={cluster.namespace}"
    gang = Foreign(JobNamespace(cluster), NAME, poll_seconds=POLL_SECONDS)
    cluster.kubectl.run("delete", "tfjob", NAME, in_namespace, "--ignore-not-found")
    start = gang.now()
    folder = f"{NAME}-{datetime.now(UTC):%H%M%S}"
    cluster.kubectl.apply(*_manifests(cluster.namespace, image, workers, folder))
    try:
        wait_for("the pods of the TFJob", lambda: len(gang.pods()) == workers, seconds=60)
        gang.steps_after(start, saved=True)
        yield gang
    finally:
        cluster.kubectl.run("delete", "tfjob", NAME, in_namespace, "--ignore-not-found")


def _manifests(namespace: str, image: str, workers: int, folder: str) -> list[Json]:
    """Return a TFJob that trains as our job does, and the ConfigMap of its settings."""
    spec = _job(workers)["spec"]
    checkpoint = spec["checkpoint"] | {"directory": f"/ckpt/{folder}"}
    job = {"training": spec["training"], "checkpoint": checkpoint}
    settings = {"name": "settings", "configMap": {"name": NAME}}
    container = {
        "name": "tensorflow",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python", "-m", "tfdist_trainer", "--config", "/settings/job.yaml"],
        "resources": spec["resources"],
        "volumeMounts": [*spec["volumeMounts"], {"name": "settings", "mountPath": "/settings"}],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    security_context = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    pod = {"containers": [container], "volumes": [*spec["volumes"], settings], "securityContext": security_context}
    template = {"spec": pod}
    worker = {"replicas": workers, "restartPolicy": "OnFailure", "template": template}
    metadata = {"name": NAME, "namespace": namespace}
    files = {"job.yaml": yaml.safe_dump(job)}
    return [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": files},
        {
            "apiVersion": "kubeflow.org/v1",
            "kind": "TFJob",
            "metadata": metadata,
            "spec": {"tfReplicaSpecs": {"Worker": worker}},
        },
    ]


if __name__ == "__main__":
    raise SystemExit(main())
