"""An installation that is monitored: two replicas of the controller, and a Prometheus that asks both."""

import pathlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from support.api import Api, Json
from support.controller import SYSTEM, Controller, controller
from support.factories import manifest
from support.polling import wait_for
from support.prometheus import Prometheus, prometheus
from support.trainers import Trainers, trainers
from tfdist_demo.helm import CHART

LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases/tfdist-controller"


@dataclass(frozen=True, slots=True)
class Installation:
    """Who is there, in a namespace of their own."""

    api: Api
    namespace: str
    leader: Controller
    trainers: Trainers
    prometheus: Prometheus

    def submit(self, name: str, **spec: object) -> None:
        """Create a job."""
        document = manifest(name, self.namespace, **spec)
        del document["metadata"]["uid"]
        self.api.create_job(document)

    def status(self, name: str) -> Json:
        """Return the status of a job."""
        stored: Json = self.api.job(self.namespace, name).get("status", {})
        return stored

    def await_phase(self, name: str, phase: str, attempt: int = 0) -> Json:
        """Return the status once the job is in a phase of an attempt."""

        def reached() -> Json | None:
            status = self.status(name)
            return status if (status.get("phase"), status.get("attempt", 0)) == (phase, attempt) else None

        last = wait_for(f"{name} to be {phase}", reached, 120)
        assert last is not None
        return last

    def end(self, name: str, exit_code: int, workers: int = 2) -> None:
        """End the first containers of a job's first attempt, which are workers."""
        for number in range(workers):
            self.api.end_container(self.namespace, f"{name}-worker-{number}", exit_code)


@contextmanager
def monitored_installation(
    api: Api, namespace: str, folder: pathlib.Path, *, every_seconds: float = 1.0
) -> Iterator[Installation]:
    """Run it until the block ends; the first replica leads."""
    api.send("DELETE", LEASE)
    settings = {"TFDIST_NAMESPACE": namespace, "TFDIST_LEADER_ELECTION": "true"}
    with ExitStack() as stack:
        leader = stack.enter_context(controller(api, folder / "first", HOSTNAME="first", **settings))
        wait_for("a leader", leader.leads)
        standby = stack.enter_context(controller(api, folder / "second", HOSTNAME="second", **settings))
        targets = {name: urlsplit(one.address).netloc for name, one in (("first", leader), ("second", standby))}
        rules = CHART / "files/alerts.yaml"
        server = prometheus(folder / "prometheus", targets, rules=rules, every_seconds=every_seconds)
        speaking = stack.enter_context(trainers(api, namespace))
        yield Installation(api, namespace, leader, speaking, stack.enter_context(server))
