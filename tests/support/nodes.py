"""Actions outside the API server: signals to a container's processes, cut cables, a node that stands still.

On a cluster of the user's no node is made to stand still, for others may have pods there.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pytest

from support.api import Json
from support.node_commands import on_node
from support.polling import wait_for
from tfdist_cluster import shell
from tfdist_cluster.errors import CommandError
from tfdist_demo import target

PROCESS_1: Final = """
for file in $(grep --files-with-matches --no-messages "$0" /proc/[0-9]*/cgroup); do
    folder=${file%/cgroup}
    if grep --quiet --no-messages "^NSpid:.*[[:space:]]1$" "$folder/status"; then echo "${folder#/proc/}"; fi
done
"""
"""Prints the process that is number 1 in the container `$0`, by its number on the node."""


def require_own_nodes(reason: str) -> None:
    """Skip the test, for that `reason`, if the nodes are not those of this repository's kind cluster."""
    if not target.choose().own:
        pytest.skip(reason)


def send_signal(pod: Json, signal: str) -> str:
    """Send a signal, such as `KILL`, to process 1 of the container `tensorflow`, from outside of it.

    Return when it was sent, as logs have it.
    """
    return _signal(_node(pod), _process_1(pod), signal)


def signal_program(pod: Json, signal: str) -> str:
    """Send a signal to the program that the launcher of a pod has started, its only grandchild; return when."""
    node, launcher = _node(pod), _process_1(pod)

    def sent_at() -> str:
        warm = _children(node, launcher)
        programs = _children(node, warm[0]) if warm else []
        try:
            return _signal(node, programs[0], signal) if programs else ""
        except CommandError:
            return ""  # it has exited meanwhile, and another one starts

    return wait_for(f"a program in {pod['metadata']['name']}", sent_at)


def _signal(node: str, process: str, signal: str) -> str:
    return on_node(node, "sh", "-c", f"date -u +%Y-%m-%dT%H:%M:%S.%3NZ && kill -{signal} {process}").strip()


@contextmanager
def cut(one: Json, other: Json) -> Iterator[None]:
    """Drop all that two pods send each other while the block lasts; both still reach everybody else.

    The rules are in the network namespace of the first pod alone: no other rule of the node is touched, and they go
    with the pod.
    """
    node, far = _node(one), other["status"]["podIP"]
    # By the program of the node itself, which is in the mounts of its first process.
    inside = [
        "nsenter",
        "--target=1",
        "--mount",
        "nsenter",
        f"--net=/proc/{_process_1(one)}/ns/net",
        "iptables",
        "--wait",
    ]
    rules = (["INPUT", "--source", far, "--jump", "DROP"], ["OUTPUT", "--destination", far, "--jump", "DROP"])
    for rule in rules:
        on_node(node, *inside, "--append", *rule)
    try:
        yield
    finally:
        for rule in rules:
            on_node(node, *inside, "--delete", *rule)


@contextmanager
def paused(node: str) -> Iterator[None]:
    """Stop everything on a node while the block lasts: it answers no request and loses nothing."""
    shell.run(["docker", "pause", node])
    try:
        yield
    finally:
        shell.run(["docker", "unpause", node])


def _process_1(pod: Json) -> str:
    container = next(c for c in pod["status"]["containerStatuses"] if c["name"] == "tensorflow")
    identity = container["containerID"].partition("://")[2]
    return on_node(_node(pod), "sh", "-c", PROCESS_1, identity).split()[0]


def _children(node: str, process: str) -> list[str]:
    try:
        return on_node(node, "cat", f"/proc/{process}/task/{process}/children").split()
    except CommandError:
        return []  # it has ended meanwhile


def _node(pod: Json) -> str:
    return str(pod["spec"]["nodeName"])
