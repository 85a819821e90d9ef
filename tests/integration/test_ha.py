"""Two replicas, and an API server that goes away: what runs goes on, nothing is lost and nothing is done twice."""

import itertools
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from support.api import JOBS, Api, Json
from support.controller import SYSTEM, Controller
from support.controller import controller as run_controller
from support.factories import manifest
from support.holding_proxy import holding_proxy
from support.polling import WAIT_SECONDS, wait_for
from support.proxy import proxy

from tfdist_cluster import control_plane
from tfdist_cluster.paths import CLUSTER, State

pytestmark = pytest.mark.integration

LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases/tfdist-controller"


class Replicas:
    """Controllers of one namespace that elect a leader."""

    def __init__(self, api: Api, namespace: str, folder: pathlib.Path, stack: ExitStack) -> None:
        self._api = api
        self._namespace = namespace
        self._folder = folder
        self._stack = stack

    def start(self, name: str, server: str = "") -> Controller:
        """Run a replica and return when it is ready."""
        settings = {"TFDIST_NAMESPACE": self._namespace, "TFDIST_LEADER_ELECTION": "true", "HOSTNAME": name}
        return self._stack.enter_context(
            run_controller(self._api, self._folder / name, server=server, **settings),
        )

    def pair(self, server: str = "") -> tuple[Controller, Controller]:
        """Run two replicas and return the one that leads and its standby."""
        leader = self.start("first", server)
        wait_for("a leader", leader.leads)
        return leader, self.start("second")


@pytest.fixture
def replicas(api: Api, namespace: str, tmp_path: pathlib.Path) -> Iterator[Replicas]:
    api.send("DELETE", LEASE)
    with ExitStack() as stack:
        yield Replicas(api, namespace, tmp_path, stack)


def holder(api: Api) -> str:
    """Return which replica has the Lease, without what makes its name unique."""
    spec: Json = api.do("GET", LEASE)["spec"]
    return str(spec.get("holderIdentity") or "").partition("_")[0]


def new_job(api: Api, namespace: str, name: str, workers: int = 2) -> None:
    made = manifest(name, namespace, worker={"replicas": workers})
    del made["metadata"]["uid"]
    api.create_job(made)


def phases(api: Api, namespace: str) -> dict[str, str]:
    items = api.do("GET", JOBS.format(ns=namespace))["items"]
    return {job["metadata"]["name"]: job.get("status", {}).get("phase", "") for job in items}


def await_running(api: Api, namespace: str, *names: str, seconds: float = 120) -> None:
    def all_run() -> bool:
        found = phases(api, namespace)
        return all(found.get(name) == "Running" for name in names)

    wait_for(f"{len(names)} jobs to run", all_run, seconds)


def assert_one_pod_for_each_replica(api: Api, namespace: str, count: int) -> None:
    pods = [pod["metadata"]["name"] for pod in api.pods(namespace)]
    assert len(pods) == count, pods
    assert not [name for name in pods if "-r1" in name], "a job was started again that nothing had happened to"


def test_a_standby_is_ready_and_leaves_all_to_the_leader(api: Api, namespace: str, replicas: Replicas) -> None:
    _, standby = replicas.pair()
    new_job(api, namespace, "one")
    await_running(api, namespace, "one")
    known = "ready; standby; the leader is first_"
    wait_for("the standby to have read the Lease", lambda: standby.readiness().startswith(known))
    assert standby.requests_made() == {}


@pytest.mark.long
def test_a_killed_leader_is_replaced_and_its_work_completed(api: Api, namespace: str, replicas: Replicas) -> None:
    leader, standby = replicas.pair()
    new_job(api, namespace, "before", workers=20)
    wait_for("the first pod", lambda: api.pods(namespace))
    leader.process.send_signal(signal.SIGKILL)
    killed = time.monotonic()
    new_job(api, namespace, "after")
    wait_for("the standby to lead", standby.leads)
    print(f"took over {time.monotonic() - killed:.1f} s after the kill")
    await_running(api, namespace, "before", "after")
    assert_one_pod_for_each_replica(api, namespace, 22)


def test_a_leader_that_receives_sigterm_hands_over_at_once(api: Api, namespace: str, replicas: Replicas) -> None:
    leader, standby = replicas.pair()
    new_job(api, namespace, "before", workers=20)
    wait_for("the first pod", lambda: api.pods(namespace))
    leader.process.send_signal(signal.SIGTERM)
    signalled = time.monotonic()
    assert leader.process.wait(timeout=WAIT_SECONDS) == 0
    assert holder(api) != "first", "the Lease was not released, and the standby waits until it expires"
    print(f"ended {time.monotonic() - signalled:.2f} s after SIGTERM")
    wait_for("the standby to lead", standby.leads)
    print(f"took over {time.monotonic() - signalled:.2f} s after SIGTERM")
    await_running(api, namespace, "before")
    assert_one_pod_for_each_replica(api, namespace, 20)


@pytest.mark.long
def test_a_standby_whose_watch_of_pods_is_cut_off_does_not_restart_a_gang_when_it_takes_over(
    api: Api, namespace: str, replicas: Replicas
) -> None:
    # given a standby whose pod watch is held after it has seen attempt 0, while its watch of jobs goes on
    with holding_proxy(api) as line:
        leader = replicas.start("first")
        wait_for("a leader", leader.leads)
        standby = replicas.start("second", line.address)
        new_job(api, namespace, "before")
        await_running(api, namespace, "before")
        assert line.hold("pods") == 1
        # and a gang that the leader restarts
        api.end_container(namespace, "before-worker-1", 137)
        wait_for("the next attempt", lambda: api.job(namespace, "before")["status"].get("attempt") == 1)
        await_running(api, namespace, "before")
        # when the standby takes over
        leader.process.send_signal(signal.SIGTERM)
        wait_for("the standby to lead", standby.leads)
        new_job(api, namespace, "after")
        await_running(api, namespace, "after")
        # then the gang goes on as it is
        status = api.job(namespace, "before")["status"]
        assert (status["phase"], status["attempt"], status["restarts"]["counted"]) == ("Running", 1, 1)
        assert leader.process.wait(timeout=WAIT_SECONDS) == 0


def test_a_leader_that_is_cut_off_ends_before_another_can_lead(api: Api, namespace: str, replicas: Replicas) -> None:
    with proxy(api.host) as line:
        leader, standby = replicas.pair(line.address)
        new_job(api, namespace, "before", workers=60)
        wait_for("the first pod", lambda: api.pods(namespace))
        line.cut()
        cut = time.monotonic()
        new_job(api, namespace, "after")
        assert leader.process.wait(timeout=WAIT_SECONDS) == 1
        assert holder(api) == "first", "the Lease was taken while its holder still ran"
        print(f"ended {time.monotonic() - cut:.1f} s after the cut")
        wait_for("the standby to lead", standby.leads)
        print(f"the standby leads {time.monotonic() - cut:.1f} s after the cut")
    await_running(api, namespace, "before", "after")
    assert_one_pod_for_each_replica(api, namespace, 62)


@pytest.mark.long
def test_a_frozen_leader_does_nothing_when_it_wakes_up(api: Api, namespace: str, replicas: Replicas) -> None:
    leader, standby = replicas.pair()
    leader.process.send_signal(signal.SIGSTOP)
    wait_for("the standby to lead", standby.leads)
    new_job(api, namespace, "after")
    leader.process.send_signal(signal.SIGCONT)
    assert leader.process.wait(timeout=WAIT_SECONDS) == 1
    await_running(api, namespace, "after")
    assert holder(api) == "second"
    assert_one_pod_for_each_replica(api, namespace, 2)


def restart_control_plane() -> None:
    """Kill all servers but etcd and start them again.

    A scheduler that lived on would see no pod for up to a minute, by the back-off of its own watches. The fake
    kubelets live on, as those of a cluster do; new ones would wait for the Leases of the old ones to expire.
    """
    servers = control_plane.running(State.from_environment())
    killed = [server for name in control_plane.SERVERS if name != "etcd" and (server := servers[name])]
    for server in killed:
        server.signal(signal.SIGKILL)
    wait_for("the servers to be gone", lambda: not any(server.alive() for server in killed))
    command = [sys.executable, "-m", "tfdist_cluster", "control-plane", "up"]
    subprocess.run(command, cwd=CLUSTER, check=True)


@pytest.mark.long
def test_a_restart_of_the_control_plane_under_load_is_survived(
    api: Api, namespace: str, tmp_path: pathlib.Path
) -> None:
    with run_controller(api, tmp_path, TFDIST_NAMESPACE=namespace) as running:
        before = [f"before-{number}" for number in range(20)]
        for name in before:
            new_job(api, namespace, name)
        restart_control_plane()
        after = [f"after-{number}" for number in range(5)]
        for name in after:
            new_job(api, namespace, name)
        await_running(api, namespace, *before, *after, seconds=300)  # kwok, too, may watch again late
        assert_one_pod_for_each_replica(api, namespace, 50)
        assert running.ready()


def restart_events(api: Api, namespace: str) -> list[str]:
    items = api.do("GET", f"/api/v1/namespaces/{namespace}/events", fieldSelector="reason=Restarting")["items"]
    return [event["metadata"]["name"] for event in items]


@pytest.mark.long
def test_two_controllers_that_act_on_one_job_record_a_failure_once(
    api: Api, namespace: str, tmp_path: pathlib.Path
) -> None:
    # given two controllers that do not elect a leader, and their job
    with (
        run_controller(api, tmp_path / "first", TFDIST_NAMESPACE=namespace) as first,
        run_controller(api, tmp_path / "second", TFDIST_NAMESPACE=namespace) as second,
    ):
        wait_for("both to reconcile", lambda: first.leads() and second.leads())
        new_job(api, namespace, "one")
        await_running(api, namespace, "one")
        # when a replica fails
        api.end_container(namespace, "one-worker-1", 137)
        wait_for("the next attempt", lambda: api.job(namespace, "one")["status"].get("attempt") == 1)
        await_running(api, namespace, "one")
        # and each controller has acted, however much faster the other is
        later = itertools.count()

        def both_acted() -> bool:
            name = f"later-{next(later)}"
            new_job(api, namespace, name)
            await_running(api, namespace, name)
            return bool(first.requests_made() and second.requests_made())

        wait_for("both controllers to act", both_acted)
    # then the failure, its restart and its event are there once
    status = api.job(namespace, "one")["status"]
    assert (status["attempt"], status["restarts"]["counted"], len(status["failures"])) == (1, 1, 1)
    (event,) = restart_events(api, namespace)
    assert event.endswith(".restarting-training-1")
