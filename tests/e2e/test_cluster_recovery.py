"""`up` makes the cluster usable again after everything that can befall it, and `up` twice changes nothing.

The tests disturb the cluster that others may be using, so they are marked long. What kills the engine runs only if
the tool itself started it.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.polling import wait_for

from tfdist_cluster import engine, kind, process, shell
from tfdist_cluster.paths import CLUSTER, State, cluster_name

pytestmark = [pytest.mark.e2e, pytest.mark.long]


@pytest.fixture
def state() -> State:
    return State.from_environment()


@pytest.fixture
def own_engine(state: State) -> process.Identity:
    running = engine.ours(state)
    if running is None:
        pytest.skip("the Docker engine was not started by this tool")
    return running


def _tool(*arguments: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "PYTHONPATH": str(CLUSTER)}
    command = [sys.executable, "-m", "tfdist_cluster", *arguments]
    return subprocess.run(command, env=environment, text=True, capture_output=True, check=False)


def _up_makes_it_usable() -> str:
    done = _tool("up")
    assert done.returncode == 0, done.stderr
    # A server of the cluster may restart once more after the disturbance, and be ready again.
    wait_for(
        "a cluster that is usable", lambda: _tool("status").returncode == 0, context=lambda: _tool("status").stdout
    )
    return done.stderr


def _pod_uids(state: State) -> str:
    return kind.kubectl(state, "get", "pods", "--all-namespaces", "--output=jsonpath={.items[*].metadata.uid}")


def test_up_twice_keeps_every_pod(state: State) -> None:
    _up_makes_it_usable()
    before = set(_pod_uids(state).split())
    _up_makes_it_usable()
    assert before <= set(_pod_uids(state).split())


@pytest.mark.parametrize("way", ["stop", "pause", "kill"])
def test_a_worker_that_stands_still_comes_back(way: str) -> None:
    _up_makes_it_usable()
    worker = next(node for node in kind.nodes(cluster_name()) if node.role == "worker")
    shell.run(["docker", way, worker.name])
    assert _tool("status").returncode == 1
    _up_makes_it_usable()
    assert [node.state for node in kind.nodes(cluster_name())].count("running") == len(kind.nodes(cluster_name()))


def test_a_stopped_control_plane_comes_back(state: State) -> None:
    _up_makes_it_usable()
    before = set(_pod_uids(state).split())
    shell.run(["docker", "stop", kind.nodes(cluster_name())[0].name])
    _up_makes_it_usable()
    assert before & set(_pod_uids(state).split())  # the same cluster, not a new one


def test_a_killed_engine_is_started_again_with_its_cluster(state: State, own_engine: process.Identity) -> None:
    _up_makes_it_usable()
    before = set(_pod_uids(state).split())
    own_engine.signal(signal.SIGKILL)
    shell.wait_until(lambda: not own_engine.alive(), timeout_seconds=10, what="end of dockerd")
    _up_makes_it_usable()
    assert before & set(_pod_uids(state).split())


def test_after_all_processes_are_gone_as_in_a_reboot(state: State, own_engine: process.Identity) -> None:
    _up_makes_it_usable()
    before = set(_pod_uids(state).split())
    names = [node.name for node in kind.nodes(cluster_name())]
    pids = shell.run(["docker", "inspect", "--format", "{{.State.Pid}}", *names])
    inits = [int(line) for line in pids.split()]
    shims = [_parent(pid) for pid in inits]
    containerd = int((engine.EXEC_ROOT / "containerd" / "containerd.pid").read_text())
    for pid in [own_engine.pid, containerd, *shims, *inits]:
        os.kill(pid, signal.SIGKILL)
    shell.wait_until(lambda: not own_engine.alive(), timeout_seconds=10, what="end of dockerd")
    _up_makes_it_usable()
    assert before & set(_pod_uids(state).split())


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_a_second_up_waits_for_the_first() -> None:
    environment = {**os.environ, "PYTHONPATH": str(CLUSTER)}
    command = [sys.executable, "-m", "tfdist_cluster", "up"]
    both = [
        subprocess.Popen(command, env=environment, text=True, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
        for _ in range(2)
    ]
    messages = [started.communicate()[1] for started in both]
    assert [started.returncode for started in both] == [0, 0], messages
    assert any("another invocation" in text for text in messages)


@pytest.mark.usefixtures("own_engine")
def test_containers_that_died_under_a_living_engine_come_back() -> None:
    _up_makes_it_usable()
    names = [node.name for node in kind.nodes(cluster_name())]
    pids = shell.run(["docker", "inspect", "--format", "{{.State.Pid}}", *names])
    inits = [int(line) for line in pids.split()]
    containerd = int((engine.EXEC_ROOT / "containerd" / "containerd.pid").read_text())
    for pid in [containerd, *(_parent(pid) for pid in inits), *inits]:
        os.kill(pid, signal.SIGKILL)
    _up_makes_it_usable()


def test_down_leaves_no_container_process_or_mount(state: State, own_engine: process.Identity) -> None:
    _up_makes_it_usable()
    done = _tool("down")
    assert done.returncode == 0, done.stderr
    assert not own_engine.alive()
    mounts = Path("/proc/self/mounts").read_text()
    assert str(state.docker_data) not in mounts
    assert str(engine.EXEC_ROOT) not in mounts
    assert _processes_that_name(str(state.docker_data), str(engine.EXEC_ROOT)) == []
    _up_makes_it_usable()
    assert len(kind.nodes(cluster_name())) == 3


def _processes_that_name(*parts: str) -> list[str]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            line = (folder / "cmdline").read_bytes().decode(errors="replace").replace("\0", " ")
        except (FileNotFoundError, ProcessLookupError):
            continue
        found += [line] if any(part in line for part in parts) else []
    return found
