"""A gang on the cluster whose launchers restart it in place, and what its logs report of its rounds."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from support.api import Json
from support.e2e import Cluster, example
from support.failing_jobs import JobNamespace
from support.nodes import send_signal, signal_program
from support.polling import wait_for
from tfdist_cluster.errors import ClusterError

PROGRAM: Final = Path(__file__).parent / "programs" / "counting.py"
CONFIG_MAP: Final = "counting"
RECOVERY_SECONDS: Final = 600.0
"""Patience of a test, not a target: hack/bench/pods.py measures."""

_TIME: Final = r"(\d{4}-\S+Z)"
_STEP: Final = re.compile(rf"^{_TIME} (?:train|checkpoint) step=(\d+)", re.MULTILINE)
_SAVED: Final = re.compile(rf"^{_TIME} checkpoint step=", re.MULTILINE)
_EPOCH: Final = re.compile(r"^\S+ epoch epoch=(\d+) .*balance=(\S+) spread=(\S+)", re.MULTILINE)


def counting_job(name: str, *, replicas: int = 2, epochs: int = 10**6, **spec: Any) -> Json:
    """Return a job of workers that count examples (`programs/counting.py`) until they get the request to hurry."""
    job = example(name)
    del job["spec"]["evaluation"]
    config = {"epochs": epochs, "batchSizePerReplica": 10, "learningRate": 0.001, "hurry": f"/ckpt/{_hurry(name)}"}
    source = {"configMap": {"name": CONFIG_MAP}}
    job["spec"]["training"] = {"program": "counting:Counting", "source": source, "config": config}
    job["spec"]["checkpoint"]["everySteps"] = 50
    job["spec"] |= {
        "worker": {"replicas": replicas},
        "runPolicy": {"backoffLimit": 20},
        "resources": {"requests": {"cpu": "100m", "memory": "300Mi"}},
        "template": {"spec": {"terminationGracePeriodSeconds": 20}},
    } | spec
    return job


def _hurry(name: str) -> str:
    return f"hurry-{name}"


@dataclass(slots=True)
class Rounds:
    """One such job."""

    jobs: JobNamespace
    name: str
    leader: str = "worker-0"
    poll_seconds: float = 0.5
    """Between two reads of the log. A read starts processes, which on a small machine take CPU from the gang."""

    @property
    def cluster(self) -> Cluster:
        """Where it runs."""
        return self.jobs.cluster

    def pods(self) -> dict[str, Json]:
        """Return the pods that serve, by replica, as `worker-0`: of each the newest."""
        by_attempt = sorted(
            self.cluster.pods(self.name), key=lambda pod: int(pod["metadata"]["labels"]["tfdist.dev/attempt"])
        )
        return {str(pod["spec"]["hostname"]): pod for pod in by_attempt}

    def uids(self) -> dict[str, str]:
        """Return the identity of each replica's pod."""
        return {replica: pod["metadata"]["uid"] for replica, pod in self.pods().items()}

    def log(self, replica: str) -> str:
        """Return all that a replica's pod has written; nothing before its container has started."""
        pod = self.pods()[replica]["metadata"]["name"]
        try:
            return self.cluster.kubectl.run("logs", f"--namespace={self.cluster.namespace}", pod)
        except ClusterError:
            return ""

    def now(self) -> str:
        """Return the time as logs have it."""
        return self.cluster.inside("date", "-u", "+%Y-%m-%dT%H:%M:%S.%3NZ").strip()

    def steps_after(self, since: str, *, saved: bool = False) -> str:
        """Return when the gang first logged a step after a time; with `saved`, a checkpoint after that.

        Raises:
            AssertionError: it did not within `RECOVERY_SECONDS`; the text has the logs.
        """

        def first() -> str:
            log = self.log(self.leader)
            steps = [time for time, _ in _STEP.findall(log) if time > since]
            if not steps or (saved and not any(time > steps[0] for time in _SAVED.findall(log))):
                return ""
            return str(steps[0])

        try:
            return wait_for(f"steps of {self.name} after {since}", first, RECOVERY_SECONDS, self.poll_seconds)
        except AssertionError as error:
            logs = "\n".join(f"== {replica}\n{self.log(replica)[-3000:]}" for replica in self.pods())
            raise AssertionError(f"{error}\n{self.described()}\n{logs}") from None

    def described(self) -> str:
        """Return what `kubectl describe` prints of the job."""
        return self.jobs.described(self.name)

    def kill_program(self, replica: str, signal: str = "KILL", *, of_container: bool = False) -> str:
        """Send a signal to the program of a replica, or to process 1 of its container; return when it was sent."""
        return (send_signal if of_container else signal_program)(self.pods()[replica], signal)

    def root_causes(self, count: int) -> list[Json]:
        """Return the root causes in the status once there are `count`."""

        def enough() -> list[Json]:
            causes = self.jobs.root_causes(self.name)
            return causes if len(causes) >= count else []

        return wait_for(f"{count} root causes of {self.name}", enough)

    def hurry(self) -> None:
        """Have the program go on without pauses."""
        self.cluster.inside("touch", f"/volume/checkpoints/{_hurry(self.name)}")

    def each_example_once(self) -> int:
        """Return how many epochs the leader's pod has logged, and assert that each saw every example once."""
        logged = _EPOCH.findall(self.log(self.leader))
        assert {(balance, spread) for _, balance, spread in logged} <= {("0", "53333"), ("-0", "53333")}, logged[-30:]
        epochs = sorted({int(epoch) for epoch, _, _ in logged})
        assert epochs == list(range(epochs[0], epochs[-1] + 1)), "an epoch is missing"
        return len(epochs)


@contextmanager
def started(cluster: Cluster, name: str, *, leader: str = "worker-0", **job: Any) -> Iterator[Rounds]:
    """Start a counting job, wait until it has saved a checkpoint, and delete it when the block ends."""
    metadata = {"name": CONFIG_MAP, "namespace": cluster.namespace}
    of_program = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    cluster.kubectl.apply(of_program | {"data": {PROGRAM.name: PROGRAM.read_text()}})
    cluster.inside("rm", "-f", f"/volume/checkpoints/{_hurry(name)}")
    with training(Rounds(JobNamespace(cluster), name, leader), counting_job(name, **job)) as rounds:
        yield rounds


@contextmanager
def training(rounds: Rounds, job: Json) -> Iterator[Rounds]:
    """Start the job of `rounds`, wait until it has saved a checkpoint, and delete it when the block ends."""
    rounds.cluster.delete_job(rounds.name)
    try:
        before = rounds.now()
        rounds.jobs.start(job)
        rounds.jobs.runs(rounds.name)
        rounds.steps_after(before, saved=True)
        yield rounds
    finally:
        rounds.cluster.delete_job(rounds.name)
