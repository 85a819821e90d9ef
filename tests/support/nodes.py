"""What nobody can do through the API server: signals to a container's process, and a node that stands still.

The nodes of the kind cluster are containers of this machine's Docker engine; on a cluster of the user's the tests
that need them are skipped.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from support.api import Json
from tfdist_cluster import shell
from tfdist_demo import target


def require_own_nodes() -> None:
    """Skip the test where the nodes are not containers of ours."""
    if not target.choose().own:
        pytest.skip("needs the kind cluster of this repository, whose nodes can be reached")


def send_signal(pod: Json, signal: str) -> None:
    """Send a signal, such as `KILL`, to the process of the container `tensorflow`, from outside of it."""
    node = pod["spec"]["nodeName"]
    container = next(c for c in pod["status"]["containerStatuses"] if c["name"] == "tensorflow")
    identity = container["containerID"].partition("://")[2]
    tasks = (line.split() for line in _on(node, "ctr", "--namespace=k8s.io", "tasks", "list").splitlines())
    pid = next(words[1] for words in tasks if words[0] == identity)
    _on(node, "kill", f"-{signal}", pid)


@contextmanager
def paused(node: str) -> Iterator[None]:
    """Stop everything on a node while the block lasts: it answers nobody and loses nothing."""
    shell.run(["docker", "pause", node])
    try:
        yield
    finally:
        shell.run(["docker", "unpause", node])


def _on(node: str, *command: str) -> str:
    return shell.run(["docker", "exec", node, *command], timeout_seconds=30)
