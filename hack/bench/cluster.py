"""The control plane that only the benchmarks use, its fake nodes, and namespaces emptied after each measurement."""

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from support.api import PODS, Api

from bench.bulk import Bulk, Request
from bench.process import cpu_millis
from tfdist_cluster import control_plane, lock, process, shell, tools
from tfdist_cluster.errors import ClusterError
from tfdist_cluster.paths import State

Json = dict[str, Any]

NODES: Final = 4
POLL_SECONDS: Final = 0.02
"""How exact times are that are found by asking again."""
RARE_POLL_SECONDS: Final = 0.2
"""Where a question is a search of all pods, or where time does not count."""
_IDLE: Final = 0.15
"""Part of one core that the API server may use and still count as idle."""
_SERVICES: Final = "/api/v1/namespaces/{ns}/services"


@dataclass(frozen=True, slots=True)
class Cluster:
    """An API server, and the programs to use it."""

    programs: State
    """Where programs are built: shared with everything else."""
    state: State
    """What belongs to this control plane."""
    api: Api
    bulk: Bulk
    kubeconfig: Path

    def namespace(self, name: str) -> str:
        """Make a namespace that pods can be created in, and return its name."""
        self.api.do("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
        wait(lambda: self.api.send("GET", account).ok, f"the service account of {name}")
        return name

    def count(self, path: str, **query: str) -> int:
        """Return how many objects there are, without fetching them."""
        page = self.api.do("GET", at(path, limit="1", **query))
        return len(page["items"]) + int(page["metadata"].get("remainingItemCount", 0))

    def any(self, path: str, **query: str) -> bool:
        """Return whether there is any such object."""
        return bool(self.api.do("GET", at(path, limit="1", **query))["items"])

    def await_pods(self, namespace: str, number: int, *, seconds: float = 300) -> None:
        """Wait until this number of pods exists."""
        path = PODS.format(ns=namespace)
        wait(lambda: self.count(path) >= number, f"{number} pods of {namespace}", seconds)

    def await_running(self, namespace: str, number: int, *, seconds: float = 600) -> None:
        """Wait until this number of pods exists and all of them run."""
        self.await_pods(namespace, number, seconds=seconds)
        path = PODS.format(ns=namespace)

        def all_run() -> bool:
            # A server that is busy with thousands of new pods may not answer within the client's timeout.
            with contextlib.suppress(OSError):
                return not self.any(path, fieldSelector="status.phase!=Running")
            return False

        pause = max(RARE_POLL_SECONDS, number / 5000)  # the server filters all pods for each answer
        wait(all_run, "all pods to run", seconds, pause)

    def clear(self, namespace: str, jobs: str) -> None:
        """Delete the objects of a measurement: the jobs first, so that no controller creates their objects again."""
        for path in (jobs, PODS, _SERVICES):
            self._empty(path.format(ns=namespace))
        self.settle()

    def _empty(self, path: str) -> None:
        def gone() -> bool:
            # deleting a collection of thousands exceeds the client's timeout, while the server continues
            with contextlib.suppress(OSError):
                self.api.send("DELETE", at(path, gracePeriodSeconds="0"))
                return not self.any(path)
            return False

        wait(gone, f"{path} to be empty", 600, RARE_POLL_SECONDS)

    def settle(self) -> None:
        """Wait until the API server has no more to do, or for half a minute."""
        server = process.read(self.state.control_plane / "kube-apiserver.pid")
        end = time.monotonic() + 30
        while server is not None and time.monotonic() < end:
            cpu_before, start = cpu_millis(server.pid), time.monotonic()
            time.sleep(0.5)
            if cpu_millis(server.pid) - cpu_before < _IDLE * 1000 * (time.monotonic() - start):
                return

    def add_nodes(self) -> None:
        """Start kwok, and make nodes for it; every pod gets this machine's address."""
        address = f'"{machine_address()}"'
        configuration = control_plane.fake_kubelet(self.state, pod_address=address, node_address=address)
        command = [
            tools.ensure(self.programs, control_plane.FAKE), "--kubeconfig", control_plane.kubeconfig(self.state),
            f"--config={configuration}", "--manage-all-nodes=true", "--node-lease-duration-seconds=40",
        ]  # fmt: skip
        folder = self.state.control_plane
        process.start(command, pid_file=folder / f"{control_plane.FAKE}.pid", log=folder / "kwok.log")
        self.bulk.send([Request("POST", "/api/v1/nodes", _node(number)) for number in range(NODES)])
        wait(lambda: all(map(_is_ready, self.api.do("GET", "/api/v1/nodes")["items"])), "the nodes to be ready")


@contextlib.contextmanager
def fresh() -> Iterator[Cluster]:
    """Run a new control plane until the block ends; a second run at a time waits for the first."""
    programs = State.from_environment()
    tools.ensure(programs, "kube-apiserver")
    state = State(programs.folder("bench"), programs.cache)
    if not (state.root / "bin").exists():
        (state.root / "bin").symlink_to(programs.bin)
    with lock.exclusive(state.root / "run.lock"):
        control_plane.down(state)
        try:
            kubeconfig = control_plane.up(state, 0)
            yield Cluster(programs, state, Api(kubeconfig), Bulk.of(kubeconfig), kubeconfig)
        finally:
            control_plane.down(state)


def wait(condition: Callable[[], bool], what: str, seconds: float = 60, pause: float = POLL_SECONDS) -> None:
    """Ask again in short steps until a condition holds.

    Raises:
        ClusterError: it did not in time.
    """
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise ClusterError(f"waited {seconds:.0f} s for {what}")
        time.sleep(pause)


def at(path: str, **query: str) -> str:
    """Return a path with parameters."""
    return f"{path}?{urlencode(query)}" if query else path


def machine_address() -> str:
    """Return an address of this machine that is not a loopback address, which no pod may have."""
    addresses = shell.run(["hostname", "-I"]).split()
    usable = [address for address in addresses if ":" not in address and not address.startswith("127.")]
    if not usable:
        raise ClusterError("this machine has no IPv4 address but the loopback's; fake pods need one")
    return usable[0]


def _node(number: int) -> Json:
    resources = {"cpu": "100000", "memory": "1000Ti", "pods": "100000"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"fake-{number}", "labels": {"kubernetes.io/os": "linux"}},
        "status": {"allocatable": resources, "capacity": resources},
    }


def _is_ready(node: Json) -> bool:
    conditions = node.get("status", {}).get("conditions", ())
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
