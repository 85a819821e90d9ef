"""Counts what a job costs the controller: plans, requests, status writes; no peer, no network, no clock.

The counts are equal on each machine. The processor time of planning is not: compare two rows of one machine only.
`make bench-cost` replaces the row of the current commit in `cost.json`; a change that raises a count says why.
"""

import argparse
import asyncio
import gc
import json
import math
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast
from unittest.mock import patch

from support.factories import INSTALLATION, NOW

from bench.simulated_cluster import REQUEST_SECONDS, DirectClient, SimulatedCluster
from bench.virtual_time import VirtualTimeLoop
from tfdist.observed.job_view import ProbeResult
from tfdist.planner import Plan
from tfdist.planner import plan as make_plan
from tfdist_operator.cache.runtime_state import RuntimeStateStore
from tfdist_operator.caches import Caches
from tfdist_operator.config import Config
from tfdist_operator.kube.keys import NamespacedName
from tfdist_operator.reconcile import Dependencies, Reconciler
from tfdist_operator.reconcile import reconciler as planning
from tfdist_operator.replica_reports.poller import PollRate
from tfdist_operator.requests.owned_requests import OwnedRequests
from tfdist_operator.requests.resources import ResourceClient
from tfdist_operator.requests.workload_requests import WorkloadRequests

Json = dict[str, Any]

RESULTS: Final = Path(__file__).with_name("cost.json")
_KEY: Final = NamespacedName("team", "train")
_JOB: Final = "/apis/tfdist.dev/v1/namespaces/team/tfdistjobs/train"
_PODS: Final = "/api/v1/namespaces/team/pods/"
_WORKERS: Final = 4
_POLL_SECONDS: Final = 0.001
_TRAINING_SECONDS: Final = 30.0
"""Less than the time after which a program without reports is reported as silent."""
_QUIET_SECONDS: Final = 60.0
_LIMIT_SECONDS: Final = 600.0


@dataclass
class Cost:
    """What has been counted."""

    plans: int = 0
    idle_plans: int = 0
    """Plans from which no request follows."""
    plan_seconds: float = 0.0
    """Processor time."""
    idle_seconds: float = math.inf
    """Processor time of the fastest of them."""
    failed_at: float = 0.0
    first_request_seconds: float | None = None
    """Virtual time from the failure of a pod to the first request."""
    requests: Counter[str] = field(default_factory=Counter)

    def planned(self, *args: Any) -> Plan:
        """Make a plan and count it."""
        began = time.process_time()
        made = make_plan(*args)
        seconds = time.process_time() - began
        self.plan_seconds += seconds
        self.plans += 1
        if not (made.status or made.creates or made.deletes or made.patches or made.events):
            self.idle_plans += 1
            self.idle_seconds = min(self.idle_seconds, seconds)
        return made

    def to_json(self) -> Json:
        """Return the counts as the row has them."""
        writes = self.requests["PATCH tfdistjobs"]
        result: Json = {"plans": self.plans, "idle plans": self.idle_plans, "status writes": writes}
        result["requests"] = dict(sorted(self.requests.items()))
        if self.first_request_seconds is not None:
            result["virtual ms from the failure to the first request"] = round(1000 * self.first_request_seconds, 1)
        result["ms of processor time in plans"] = round(1000 * self.plan_seconds, 2)
        if self.idle_plans:
            result["ms of the fastest idle plan"] = round(1000 * self.idle_seconds, 3)
        return result


class _SilentReplicas:
    """A diagnosis in which no replica answers: the pods of the simulation have no programs."""

    def start(self, _key: object, about: str, _targets: object, on_result: Callable[[ProbeResult], None]) -> None:
        """Give the result of a diagnosis."""
        asyncio.get_running_loop().call_later(REQUEST_SECONDS, on_result, ProbeResult(about, "", ""))


class Simulation:
    """The controller's caches, queue and reconciler before a simulated cluster; it lives in one loop."""

    def __init__(self, cost: Cost) -> None:
        self.cost = cost
        self.api = SimulatedCluster(self._deliver)
        client = DirectClient(self.api)
        # Only a broken watch uses the session of kopf.
        session = cast("Any", SimpleNamespace(reconnect=lambda _: None))
        self.caches = Caches(client, session, Config(INSTALLATION))
        self.api.before = self._count
        loop = asyncio.get_running_loop()
        deps = Dependencies(
            jobs=self.caches.jobs,
            pods=self.caches.pods,
            owned=self.caches.owned,
            systems=dict,
            kueue=self.caches.kueue,
            queue=self.caches.queue,
            resources=ResourceClient(client, "bench"),
            owned_requests=OwnedRequests(client),
            workload_requests=WorkloadRequests(client, lambda: ""),
            states=RuntimeStateStore(),
            diagnosis=cast("Any", _SilentReplicas()),
            controller="tfdist-system.bench",
            now=lambda: NOW + timedelta(seconds=loop.time()),
            clock=loop.time,
        )
        self._reconciler = Reconciler(deps, INSTALLATION, PollRate(2, 10))
        self._states = deps.states

    async def _count(self, method: str) -> None:
        path = self.api.asked[-1].split()[1].removesuffix("/status").split("/")
        self.cost.requests[f"{method} {path[-1] if method == 'POST' else path[-2]}"] += 1
        if self.cost.failed_at and self.cost.first_request_seconds is None:
            self.cost.first_request_seconds = asyncio.get_running_loop().time() - self.cost.failed_at

    def _deliver(self, kind: str, path: str, content: Json) -> None:
        """Give an event of a watch to the cache of its kind."""
        plural = path.split("/")[-2]
        caches: dict[str, Any] = {k.plural: cache for k, cache in self.caches.owned.items() if not k.optional}
        cache = (caches | {"pods": self.caches.pods, "tfdistjobs": self.caches.jobs}).get(plural)
        if cache is not None:
            (cache.on_delete if kind == "DELETED" else cache.on_update)(content)

    async def reconcile(self, key: NamespacedName) -> bool:
        """Reconcile in the main loop: what the processor needs must not decide where a job is planned."""
        job = self.caches.jobs.get(key)
        if job is not None:
            self._states.get(key, job.uid).plan_seconds = 0.0
        return await self._reconciler.reconcile(key)

    def pods(self, phase: str = "") -> list[str]:
        """Return the paths of the pods, or of those in a phase."""
        items = ((p, o) for p, o in self.api.objects.items() if p.startswith(_PODS))
        return [p for p, o in items if not phase or o.get("status", {}).get("phase") == phase]

    def has(self, condition: str) -> bool:
        """Return whether the status of the job has a condition that is true."""
        conditions = self.api.objects[_JOB].get("status", {}).get("conditions", ())
        return any(c["type"] == condition and c["status"] == "True" for c in conditions)

    async def until(self, what: str, is_reached: Callable[[], bool]) -> None:
        """Let the time pass until something holds.

        Raises:
            RuntimeError: it does not within ten minutes.
        """
        deadline = asyncio.get_running_loop().time() + _LIMIT_SECONDS
        while not is_reached():
            if asyncio.get_running_loop().time() > deadline:
                raise RuntimeError(f"{what} does not happen: {json.dumps(self.api.objects[_JOB].get('status'))}")
            await asyncio.sleep(_POLL_SECONDS)


async def _until_running(simulation: Simulation, workers: int) -> None:
    spec = {"image": "registry.example.com/train:7", "command": ["python", "train.py"], "worker": {"replicas": workers}}
    meta = {"name": "train", "namespace": "team", "uid": "job", "generation": 1}
    simulation.api.put(_JOB, {"apiVersion": "tfdist.dev/v1", "kind": "TFDistJob", "metadata": meta, "spec": spec})
    await simulation.until("that all run", lambda: len(simulation.pods("Running")) == workers)
    await simulation.until("the condition Running", lambda: simulation.has("Running"))
    await asyncio.sleep(_TRAINING_SECONDS)


async def undisturbed(simulation: Simulation, workers: int) -> None:
    """Play a job from its creation to a minute after its success."""
    await _until_running(simulation, workers)
    for path in simulation.pods():
        simulation.api.end(path, 0)
        await asyncio.sleep(_POLL_SECONDS)
    await simulation.until("the condition Succeeded", lambda: simulation.has("Succeeded"))
    await asyncio.sleep(_QUIET_SECONDS)


async def failed_gang(simulation: Simulation, workers: int) -> None:
    """Play the failure of one replica, until all run again; what was before it does not count."""
    await _until_running(simulation, workers)
    before, cost = set(simulation.pods()), simulation.cost
    cost.plans = cost.idle_plans = 0
    cost.plan_seconds = 0.0
    cost.requests.clear()
    cost.failed_at = asyncio.get_running_loop().time()
    simulation.api.end(f"{_PODS}train-worker-1", 137)
    await simulation.until("that all run again", lambda: len(set(simulation.pods("Running")) - before) == workers)
    await asyncio.sleep(_TRAINING_SECONDS)


def measure(life: Callable[[Simulation, int], Awaitable[None]], workers: int) -> Cost:
    """Return the cost of a life of one job, simulated in a loop of its own."""

    async def simulate() -> Cost:
        cost = Cost()
        with patch.object(planning, "plan", cost.planned):
            simulation = Simulation(cost)
            tasks: list[asyncio.Task[None]] = []
            simulation.caches.lead(
                lambda: tasks.append(asyncio.create_task(simulation.caches.queue.run_worker(simulation.reconcile)))
            )
            try:
                await life(simulation, workers)
            finally:
                for task in tasks:
                    task.cancel()
        return cost

    gc.collect()
    gc.disable()  # its pauses fall on any plan
    try:
        with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
            return runner.run(simulate())
    finally:
        gc.enable()


LIVES: Final[dict[str, Callable[[], Cost]]] = {
    f"undisturbed job of {_WORKERS}": partial(measure, undisturbed, _WORKERS),
    "undisturbed job of 500": partial(measure, undisturbed, 500),
    f"failed gang of {_WORKERS}": partial(measure, failed_gang, _WORKERS),
}


def main(arguments: Sequence[str]) -> None:
    """Print the row of this commit, and store it."""
    parser = argparse.ArgumentParser(prog="bench.cost", description="Counts what a job costs the controller")
    parser.add_argument("--repeats", type=int, default=5, help="the best processor time counts; default: %(default)s")
    parser.add_argument("--change", default="", help="what the row shows; default: the subject of the commit")
    parser.add_argument("--output", type=Path, default=RESULTS, help="default: hack/bench/cost.json")
    options = parser.parse_args(arguments)
    row: Json = {
        "on": _git("rev-parse", "--short", "HEAD"),
        "change": options.change or _git("log", "-1", "--format=%s"),
    }
    for name, life in LIVES.items():
        costs = [life() for _ in range(options.repeats)]
        row[name] = min(costs, key=lambda cost: cost.plan_seconds).to_json()
        print(f"{name}: {json.dumps(row[name])}")
    rows = json.loads(options.output.read_text()) if options.output.exists() else []
    rows = [old for old in rows if (old["on"], old["change"]) != (row["on"], row["change"])]
    options.output.write_text(json.dumps([*rows, row], indent=2) + "\n")


def _git(*arguments: str) -> str:
    command = ["git", *arguments]
    return subprocess.run(command, cwd=RESULTS.parent, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    main(sys.argv[1:])
