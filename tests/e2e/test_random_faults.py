"""Jobs under minutes of random faults: each ends as it would without them, and none hangs.

A fault is that of a replica, a controller, the API server, a node or the network; they follow each other within
seconds, from a seed. The cluster's nodes stand still meanwhile, so the test is marked long.
"""

import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Any, Final

import pytest
from support.api import Json
from support.e2e import Cluster, example
from support.failing_jobs import ENDED, ENDS, JobNamespace, small_job
from support.node_commands import on_node
from support.nodes import cut, paused, require_own_nodes, send_signal
from support.polling import wait_for

from tfdist_cluster.errors import ClusterError

pytestmark = [pytest.mark.e2e, pytest.mark.long, pytest.mark.timeout(2700)]

STOPS: Final = "makes nodes stand still, and with them what others run there"
FAULT_SECONDS: Final = 300.0
LABEL: Final = "random-faults"
PLACE: Final = "example.com/place"
TIMEOUT_SECONDS: Final = 20
"""`scheduling.timeoutSeconds` of the gangs of which one has places at a time."""

SLEEPS: Final = "import sys, time; time.sleep(float(sys.argv[1]))"
NEVER_ENDS: Final[dict[str, Any]] = {"runPolicy": {"backoffLimit": 1000}}
RESTRICTED: Final[Json] = {
    "securityContext": {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}},
    "containers": [
        {
            "name": "tensorflow",
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        }
    ],
}
"""What a namespace with the Pod Security Standard `restricted` asks of pods with an image of their own."""
FAILS: Final = {"wrong": "UserError", "absent": "ImageError"}
"""Reasons of the jobs that fail."""


def _jobs() -> list[Json]:
    """Return 28 jobs, of which `wrong` and `absent` fail."""
    short: dict[str, Any] = {"successPolicy": "AllWorkers"} | NEVER_ENDS
    alone: dict[str, Any] = {"strategy": "Independent"} | short
    absent: dict[str, Any] = {"image": "tfdist.invalid/absent:1", "runPolicy": {"startDeadlineSeconds": 120}}
    absent["template"] = {"spec": RESTRICTED}
    jobs = [
        *(small_job(f"single-{i}", SLEEPS, "15", **NEVER_ENDS) for i in range(6)),
        *(small_job(f"gang-{i}", SLEEPS, "20", replicas=2, **NEVER_ENDS) for i in range(5)),
        *(small_job(f"short-{i}", SLEEPS, "3", replicas=3, **short) for i in range(4)),
        *(small_job(f"alone-{i}", SLEEPS, "15", replicas=3, **alone) for i in range(3)),
        *(_waiting_gang(f"waiting-{i}") for i in range(6)),
        *(_trained(f"trained-{i}") for i in range(2)),
        small_job("wrong", ENDS, "78", **NEVER_ENDS),
        small_job("absent", SLEEPS, "1", **absent),
    ]
    return [_labeled(job) for job in jobs]


def _labeled(job: Json) -> Json:
    return job | {"metadata": job["metadata"] | {"labels": {LABEL: "yes"}}}


def _waiting_gang(name: str) -> Json:
    """Return a gang of two on the two places, so that all but one wait for longer than their timeout."""
    job = small_job(name, SLEEPS, "15", replicas=2, scheduling={"timeoutSeconds": TIMEOUT_SECONDS}, **NEVER_ENDS)
    job["spec"]["resources"]["limits"][PLACE] = 1
    return job


def _trained(name: str) -> Json:
    job = example(name, epochs=2, model="mlp")
    job["spec"] |= NEVER_ENDS
    return job


class Faults:
    """Faults of the cluster on which some jobs run, chosen by a seed."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self._cluster = cluster
        self._kubectl = cluster.kubectl
        self._random = random.Random(seed)  # noqa: S311  a history that can be repeated
        self.done: Counter[str] = Counter()
        """Number of faults by kind."""
        self._kinds: Mapping[str, tuple[int, Callable[[], None]]] = {
            "killed replica": (6, self._kill_replica),
            "deleted pod": (3, self._delete_pod),
            "killed controller": (3, self._kill_controller),
            "killed API server": (1, self._kill_api_server),
            "frozen node": (1, self._freeze_node),
            "cut network": (2, self._cut_network),
            "drained node": (1, self._drain_node),
        }

    def run(self, seconds: float) -> None:
        """Let faults happen, one after another."""
        end = time.monotonic() + seconds
        weights = [weight for weight, _ in self._kinds.values()]
        while time.monotonic() < end:
            (name,) = self._random.choices([*self._kinds], weights)
            with suppress(ClusterError, IndexError, ValueError):  # pods have ended, or the API server is away
                self._kinds[name][1]()
                self.done[name] += 1
            time.sleep(self._random.uniform(1, 5))

    def _kill_replica(self) -> None:
        send_signal(self._random.choice(self._running()), "KILL")

    def _delete_pod(self) -> None:
        pod = self._random.choice(self._running())["metadata"]["name"]
        self._kubectl.run("delete", "pod", pod, f"--namespace={self._cluster.namespace}", "--wait=false")

    def _kill_controller(self) -> None:
        place = self._kubectl.place
        pod = self._random.choice(self._kubectl.pods(place.system, place.selector))["metadata"]["name"]
        self._kubectl.run("delete", "pod", pod, f"--namespace={place.system}", "--grace-period=0", "--force")

    def _kill_api_server(self) -> None:
        on_node(self._nodes("control-plane")[0], "pkill", "-KILL", "kube-apiserver")
        wait_for("the API server", self._answers)

    def _freeze_node(self) -> None:
        with paused(self._random.choice(self._nodes("worker"))):
            time.sleep(self._random.uniform(5, 30))

    def _cut_network(self) -> None:
        one, other = self._random.sample(self._running(), 2)
        with cut(one, other):
            time.sleep(self._random.uniform(5, 15))

    def _drain_node(self) -> None:
        node = self._random.choice(self._nodes("worker"))
        try:
            options = ("--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=20s", "--grace-period=1")
            self._kubectl.run("drain", node, *options)
        finally:
            self._kubectl.run("uncordon", node)

    def _running(self) -> list[Json]:
        pods = self._kubectl.pods(self._cluster.namespace, f"{LABEL}=yes")
        return [pod for pod in pods if pod["status"]["phase"] == "Running"]

    def _nodes(self, role: str) -> list[str]:
        nodes = (self._kubectl.get("nodes") or {"items": []})["items"]
        names = [str(node["metadata"]["name"]) for node in nodes]
        return [name for name in names if name.endswith("control-plane") == (role == "control-plane")]

    def _answers(self) -> bool:
        with suppress(ClusterError):
            return bool(self._kubectl.run("get", "--raw", "/readyz"))
        return False


@pytest.fixture
def _places(cluster: Cluster) -> Iterator[None]:
    """Two places, on the first worker."""
    nodes = [node["metadata"]["name"] for node in (cluster.kubectl.get("nodes") or {"items": []})["items"]]
    node = next(name for name in nodes if not name.endswith("control-plane"))
    patch = ("patch", "node", node, "--subresource=status", "--type=merge")
    cluster.kubectl.run(*patch, f"--patch={json.dumps({'status': {'capacity': {PLACE: '2'}}})}")
    yield
    cluster.kubectl.run(*patch, f"--patch={json.dumps({'status': {'capacity': {PLACE: None}}})}")


@pytest.mark.usefixtures("_places")
@pytest.mark.parametrize("seed", [7, 11])
def test_jobs_end_as_without_faults_and_none_hangs(cluster: Cluster, seed: int) -> None:
    require_own_nodes(STOPS)
    jobs = _jobs()
    names = [job["metadata"]["name"] for job in jobs]
    with ExitStack() as stack:
        for name in names:
            stack.callback(cluster.delete_job, name)
            cluster.delete_job(name)
        # given
        JobNamespace(cluster).start(*jobs)
        # when
        faults = Faults(cluster, seed)
        faults.run(FAULT_SECONDS)
        print(f"faults: {dict(faults.done)}")
        # then
        ends = wait_for("all jobs to end", lambda: _ends(cluster, names), seconds=1500, every_seconds=2)
        assert {name: ended for name, ended in ends.items() if ended != ("Succeeded", "Succeeded")} == {
            name: ("Failed", reason) for name, reason in FAILS.items()
        }
        # and no gang that waited for its nodes was thrown out of them
        events = (cluster.kubectl.get("events", f"--namespace={cluster.namespace}") or {"items": []})["items"]
        assert not [event["message"] for event in events if event["reason"] == "PodsReadyTimeout"]


def _ends(cluster: Cluster, names: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return phase and reason of each job once all have ended."""
    found = {}
    for job in (cluster.kubectl.get("tfd", f"--namespace={cluster.namespace}") or {"items": []})["items"]:
        status = job.get("status", {})
        if job["metadata"]["name"] in names and status.get("phase") in ENDED:
            last = next(c for c in status["conditions"] if c["type"] == status["phase"])
            found[job["metadata"]["name"]] = (status["phase"], last["reason"])
    return found if len(found) == len(names) else {}
