"""What nobody can do through the API server: signals to a container's processes, cut cables, a node that stands still.

The nodes of the kind cluster are containers of this machine's Docker engine; on a cluster of the user's the tests
that need them are skipped.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from support.api import Json, wait_for
from tfdist_cluster import shell
from tfdist_cluster.errors import CommandError
from tfdist_demo import target


def require_own_nodes() -> None:
    """Skip the test where the nodes are not containers of ours."""
    if not target.choose().own:
        pytest.skip("needs the kind cluster of this repository, whose nodes can be reached")


def send_signal(pod: Json, signal: str) -> str:
    """Send a signal, such as `KILL`, to process 1 of the container `tensorflow`, from outside of it.

    Return when it was sent, as logs have it.
    """
    return _signal(_node(pod), _process_1(pod), signal)


def signal_program(pod: Json, signal: str) -> str:
    """Send a signal to the program that the launcher of a pod has started, its only grandchild; return when."""
    node, launcher = _node(pod), _process_1(pod)

    def program() -> str:
        warm = _children(node, launcher)
        found = _children(node, warm[0]) if warm else []
        return found[0] if found else ""

    return _signal(node, wait_for(f"a program in {pod['metadata']['name']}", program), signal)


def _signal(node: str, process: str, signal: str) -> str:
    return _on(node, "sh", "-c", f"date -u +%Y-%m-%dT%H:%M:%S.%3NZ && kill -{signal} {process}").strip()


@contextmanager
def cut(one: Json, other: Json) -> Iterator[None]:
    """Drop all that two pods send each other while the block lasts; both still reach everybody else.

    The rules are in the network namespace of the first pod alone: no other rule of the node is touched, and they go
    with the pod.
    """
    node, far = _node(one), other["status"]["podIP"]
    inside = ["nsenter", f"--net=/proc/{_process_1(one)}/ns/net", "iptables", "--wait"]
    rules = (["INPUT", "--source", far, "--jump", "DROP"], ["OUTPUT", "--destination", far, "--jump", "DROP"])
    for rule in rules:
        _on(node, *inside, "--append", *rule)
    try:
        yield
    finally:
        for rule in rules:
            _on(node, *inside, "--delete", *rule)


@contextmanager
def paused(node: str) -> Iterator[None]:
    """Stop everything on a node while the block lasts: it answers nobody and loses nothing."""
    shell.run(["docker", "pause", node])
    try:
        yield
    finally:
        shell.run(["docker", "unpause", node])


def _process_1(pod: Json) -> str:
    container = next(c for c in pod["status"]["containerStatuses"] if c["name"] == "tensorflow")
    identity = container["containerID"].partition("://")[2]
    tasks = (line.split() for line in _on(_node(pod), "ctr", "--namespace=k8s.io", "tasks", "list").splitlines())
    return next(words[1] for words in tasks if words[0] == identity)


def _children(node: str, process: str) -> list[str]:
    try:
        return _on(node, "cat", f"/proc/{process}/task/{process}/children").split()
    except CommandError:
        return []  # it has ended meanwhile


def _node(pod: Json) -> str:
    return str(pod["spec"]["nodeName"])


def _on(node: str, *command: str) -> str:
    return shell.run(["docker", "exec", node, *command], timeout_seconds=30)
