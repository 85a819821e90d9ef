"""A tenant who does all that is known to be expensive at once: other tenants' jobs run, and no controller restarts."""

import contextlib
import itertools
import json
import pathlib
import socket
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial

import pytest
from support.api import JOBS, PODS, Api, Json
from support.controller import SYSTEM, Controller
from support.controller import controller as run_controller
from support.factories import manifest
from support.polling import wait_for
from support.scripted_sweep import create as create_sweep
from support.scripted_sweep import trials

pytestmark = [pytest.mark.integration, pytest.mark.long]

LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases/tfdist-controller"
BLANKS = " " * 4000 + "x"
REPLICAS = 200
TRIALS = 500
COPIES = 3
JOBS_OF_THE_OTHER = 15


@pytest.fixture
def good(api: Api) -> str:
    """The namespace of another tenant."""
    api.do("POST", "/api/v1/namespaces", {"metadata": {"generateName": "good-"}})
    items: list[Json] = api.do("GET", "/api/v1/namespaces")["items"]
    return next(str(i["metadata"]["name"]) for i in items if i["metadata"]["name"].startswith("good-"))


@pytest.fixture
def pair(api: Api, namespace: str, good: str, tmp_path: pathlib.Path) -> Iterator[tuple[Controller, Controller]]:
    """A leader and its standby, for both namespaces."""
    api.send("DELETE", LEASE)
    with ExitStack() as stack:

        def start(name: str) -> Controller:
            settings = {"TFDIST_NAMESPACE": f"{namespace},{good}", "TFDIST_LEADER_ELECTION": "true", "HOSTNAME": name}
            return stack.enter_context(run_controller(api, tmp_path / name, **settings))

        leader = start("first")
        wait_for("a leader", leader.leads)
        yield leader, start("second")


def job(name: str, ns: str, **spec: object) -> Json:
    made = manifest(name, ns, **spec)
    del made["metadata"]["uid"]
    return made


def seconds_of_a_job(api: Api, ns: str, name: str) -> float:
    """Return the time from the creation of a job of two workers until it runs."""
    began = time.monotonic()
    api.create_job(job(name, ns, worker={"replicas": 2}))
    wait_for(f"{name} to run", lambda: api.job(ns, name).get("status", {}).get("phase") == "Running")
    return time.monotonic() - began


def seconds_of_a_pod(api: Api, ns: str, name: str) -> float:
    """Return the time from the creation of a pod until it runs: what API server, scheduler and node take alone."""
    began = time.monotonic()
    container = {"name": "c", "image": "c"}
    api.do("POST", PODS.format(ns=ns), {"metadata": {"name": name}, "spec": {"containers": [container]}})
    path = f"{PODS.format(ns=ns)}/{name}"
    wait_for(f"{name} to run", lambda: api.do("GET", path).get("status", {}).get("phase") == "Running")
    return time.monotonic() - began


def times(api: Api, ns: str, name: str) -> tuple[float, float]:
    """Return the median times of jobs and of pods, which are created in turn."""
    jobs, pods = [], []
    for number in range(JOBS_OF_THE_OTHER):
        jobs.append(seconds_of_a_job(api, ns, f"{name}-{number}"))
        pods.append(seconds_of_a_pod(api, ns, f"{name}-pod-{number}"))
    return round(statistics.median(jobs), 2), round(statistics.median(pods), 2)


def number_that_run(api: Api, ns: str) -> int:
    """Return the number of trials whose jobs run."""
    return sum(trial.get("status", {}).get("phase") == "Running" for trial in trials(api, ns).values())


class Attack:
    """Attacks that repeat, each in a thread, until the block ends."""

    def __init__(self) -> None:
        self._over = threading.Event()
        self.answers: dict[str, int] = {}
        self._threads: list[threading.Thread] = []

    def repeat(self, name: str, attack: Callable[[], None], pause: float) -> None:
        """Repeat an attack until the end, with a pause that leaves the API server some time; it may fail."""

        def run() -> None:
            while not self._over.wait(pause):
                with contextlib.suppress(OSError, AssertionError):
                    attack()
                self.answers[name] = self.answers.get(name, 0) + 1

        self._threads.append(threading.Thread(target=run))
        self._threads[-1].start()

    def stop(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()


def flood(controller: Controller) -> None:
    """Request the metrics on 300 connections with a pipeline of requests in each, and read nothing."""
    host, _, port = controller.address.removeprefix("http://").partition(":")
    with ExitStack() as stack:
        for _ in range(300):
            connection = stack.enter_context(socket.create_connection((host, int(port)), timeout=5))
            connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n" * 100)


def many_errors(kilobytes: int) -> list[Json]:
    """Return tolerations each of which has an unknown field."""
    return [{f"no{n:x}": 1} for n in range(kilobytes * 1000 // 14)]


def fail_all(api: Api, ns: str, name: str) -> None:
    """Let every pod of a job fail with a message of blanks."""
    for pod in api.pods(ns):
        if pod["metadata"]["name"].startswith(f"{name}-"):
            ended = {"exitCode": 1, "message": BLANKS, "reason": "Error", "startedAt": None, "finishedAt": None}
            container = {"name": "tensorflow", "image": "", "imageID": "", "ready": False, "restartCount": 0}
            status = {"phase": "Failed", "containerStatuses": [container | {"state": {"terminated": ended}}]}
            path = f"{PODS.format(ns=ns)}/{pod['metadata']['name']}/status"
            api.send("PATCH", path, {"status": status}, "merge-patch")


def report_all(api: Api, ns: str) -> None:
    """Let every trial have passed all rungs."""
    for number, trial in trials(api, ns).items():
        progress = {"step": 5000 + number, "metrics": {"accuracy": number / TRIALS}}
        path = f"{JOBS.format(ns=ns)}/{trial['metadata']['name']}/status"
        api.send("PATCH", path, {"status": {"progress": progress}}, "merge-patch")


def test_a_hostile_tenant_costs_another_one_no_restart_and_no_job(
    api: Api, namespace: str, good: str, pair: tuple[Controller, Controller]
) -> None:
    # given a sweep of one tenant, and the time of a job of another one without an attack
    early = {"method": "Median", "minSteps": 10}
    create_sweep(api, namespace, search={"trials": TRIALS}, parallelism=TRIALS, earlyStopping=early)
    wait_for("every trial to run", lambda: number_that_run(api, namespace) >= TRIALS, 600)
    usual = times(api, good, "usual")
    lease = api.do("GET", LEASE)["spec"]
    # when the tenant posts objects with many errors, of the largest size, and far above it
    valid = [{"key": f"k{n:x}"} for n in range(11_000)]
    kinds = {"errors": many_errors(200), "huge": many_errors(1200), "large": valid}
    for name, tolerations in ((f"{kind}-{n}", kinds[kind]) for kind in kinds for n in range(COPIES)):
        api.do("POST", JOBS.format(ns=namespace), job(name, namespace, template={"spec": {"tolerations": tolerations}}))
    # and runs a gang whose pods all fail with blanks, while the trials report at once and the metrics are flooded
    api.create_job(job("blanks", namespace, worker={"replicas": REPLICAS}))
    attack, clients = Attack(), {name: Api(api.kubeconfig) for name in ("edits", "blanks", "sweep")}
    numbers = itertools.count()

    def edit() -> None:
        number = next(numbers)
        variable = {"name": "N", "value": str(number)}
        changed = {"metadata": {"annotations": {"n": str(number)}}, "spec": {"env": [variable]}}
        name = f"{[*kinds][number % len(kinds)]}-{number % COPIES}"
        clients["edits"].send("PATCH", f"{JOBS.format(ns=namespace)}/{name}", changed, "merge-patch")

    attack.repeat("edits", edit, 5.0)
    attack.repeat("blanks", lambda: fail_all(clients["blanks"], namespace, "blanks"), 20.0)
    attack.repeat("sweep", lambda: report_all(clients["sweep"], namespace), 60.0)
    for name, controller in zip(("leader", "standby"), pair, strict=True):
        attack.repeat(name, partial(flood, controller), 1.0)
    try:
        attacked = times(api, good, "attacked")
    finally:
        attack.stop()
    # then the other tenant's jobs run, with the same leader and no restart
    print(f"\nmedian seconds until a job of another tenant, and a pod, run: {usual}, attacked: {attacked}")
    print(f"attacks: {attack.answers}")
    assert [each.process.poll() for each in pair] == [None, None]
    now = api.do("GET", LEASE)["spec"]
    assert (now["holderIdentity"], now["leaseTransitions"]) == (lease["holderIdentity"], lease["leaseTransitions"])
    # and each of the objects has its errors
    for kind in ("errors", "huge"):
        condition = api.job(namespace, f"{kind}-0")["status"]["conditions"][0]
        assert (condition["type"], condition["status"]) == ("Invalid", "True")


def peak_mebibytes(controller: Controller) -> float:
    """Return the largest resident size that a controller has had."""
    status = pathlib.Path(f"/proc/{controller.process.pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))) / 1024


def test_1000_jobs_of_the_largest_size_fit_into_the_memory_limit_of_the_chart(
    api: Api, namespace: str, pair: tuple[Controller, Controller], tmp_path: pathlib.Path
) -> None:
    # given jobs of which each tenth takes twenty times the memory of its JSON once it is parsed
    small_values = {"template": {"spec": {"tolerations": [{"key": f"k{n:x}"} for n in range(16_000)]}}}
    long_values = {"env": [{"name": f"V{n}", "value": "x" * 4000} for n in range(62)]}
    for number in range(1000):
        spec = {"runPolicy": {"suspend": True}} | (long_values if number % 10 else small_values)
        api.do("POST", JOBS.format(ns=namespace), job(f"largest-{number}", namespace, **spec))
    for number in (0, 1):
        stored = api.job(namespace, f"largest-{number}")["spec"]
        assert 240 * 1024 < len(json.dumps(stored, separators=(",", ":"))) < 256 * 1024

    # when both controllers have seen them, and another one lists them
    def planned() -> bool:
        status: Json = api.job(namespace, "largest-999").get("status", {})
        return status.get("phase") == "Suspended"

    wait_for("the last one to be planned", planned, 600)
    with run_controller(api, tmp_path / "third", TFDIST_NAMESPACE=namespace, TFDIST_LEADER_ELECTION="true") as third:
        peaks = [peak_mebibytes(controller) for controller in (*pair, third)]
    # then none has used more than the limit
    print(f"\npeak of leader, standby, and a controller that starts: {', '.join(f'{peak:.0f} MiB' for peak in peaks)}")
    assert max(peaks) < 512
