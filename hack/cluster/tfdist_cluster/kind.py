"""The kind cluster: creation, repair, readiness, deletion.

Invariant of `ensure`: when it returns, every node is Ready and every server of the cluster is available, whatever
state the containers were in before.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

from tfdist_cluster import archive, console, content, engine, gobuild, images, node_image, shell, versions
from tfdist_cluster.errors import ClusterError
from tfdist_cluster.freshness import believed_pods
from tfdist_cluster.paths import MANIFESTS, State

READY_SECONDS = 240
SETTLED_ANSWERS = 8  # one a second; a restarted kubelet updates the statuses of its pods well within that time
SERVERS = ("daemonset/kube-proxy", "deployment/coredns", "deployment/storage-provisioner")
BUILT_SERVERS = ("daemonset/nodenet", "daemonset/network-policy")  # a released node image has its own


@dataclass(frozen=True, slots=True)
class Node:
    """A container that is a node."""

    name: str
    state: str  # Docker's: running, exited, paused, created, dead
    role: str  # control-plane or worker
    status: str  # Docker's, for people: "Up 12 seconds", "Exited (137) 3 minutes ago"

    @property
    def settled(self) -> bool:
        """Return whether it has run for a minute; a killed engine restarts containers by itself."""
        return self.state == "running" and "second" not in self.status


def nodes(name: str) -> list[Node]:
    """Return the containers of a cluster, the control plane first."""
    line = '{{.Names}}\t{{.State}}\t{{.Label "io.x-k8s.kind.role"}}\t{{.Status}}'
    output = shell.run(
        ["docker", "ps", "--all", "--no-trunc", "--filter", f"label=io.x-k8s.kind.cluster={name}", "--format", line]
    )
    containers = [Node(*row.split("\t")) for row in output.splitlines()]
    return sorted(containers, key=lambda node: (node.role != "control-plane", len(node.name), node.name))


def kind(state: State, *arguments: str, log: Path | None = None) -> str:
    """Run kind."""
    return shell.run([state.bin / "kind", *arguments], env={"KUBECONFIG": str(state.kubeconfig)}, log=log)


def kubectl(state: State, *arguments: str, stdin: str | None = None, timeout_seconds: float = 200) -> str:
    """Run kubectl on the cluster."""
    command = [state.bin / "kubectl", "--kubeconfig", state.kubeconfig, *arguments]
    return shell.run(command, stdin=stdin, timeout_seconds=timeout_seconds)


def configuration(state: State, name: str, count: int, *, lacks_resource_capability: bool) -> str:
    """Return kind's configuration of a cluster of `count` nodes, the first of which is the control plane."""
    mount = [
        "  extraMounts:",
        f"  - {{hostPath: {json.dumps(str(state.shared))}, containerPath: {versions.SHARED_MOUNT}}}",
    ]
    roles = ["control-plane"] + ["worker"] * (count - 1)
    lines = [line for role in roles for line in (f"- role: {role}", *mount)]
    return Template((MANIFESTS / "kind.yaml").read_text()).substitute(
        name=name,
        coredns_tag=versions.COREDNS_TAG,
        service_range=versions.SERVICE_RANGE,
        nodes="\n".join(lines),
        containerd_patches=_RESTRICT_OOM_SCORE if lacks_resource_capability else "",
    )


# Without CAP_SYS_RESOURCE no process can lower an oom_score_adj, and every sandbox would fail.
_RESTRICT_OOM_SCORE = """containerdConfigPatches:
- |
  [plugins."io.containerd.grpc.v1.cri"]
    restrict_oom_score_adj = true"""


def ensure(state: State, name: str, image: str, count: int) -> None:
    """Create or repair the cluster, and wait until it is usable.

    Raises:
        ClusterError: the cluster does not become usable.
    """
    existing = nodes(name)
    if existing and not _was_completed(existing):
        console.info(f"    cluster {name} was created incompletely: creating it again")
        kind(state, "delete", "cluster", "--name", name)
        existing = []
    if engine.ours(state) is not None and any(map(_is_lost, existing)):
        engine.restart(state)
        existing = nodes(name)
    repaired = False
    if not existing:
        _create(state, name, image, count)
    else:
        repaired = _repair(existing)
        if len(existing) != count:
            console.info(f"    cluster {name} has {len(existing)} nodes, not {count}: `down` and `up` change that")
    kind(state, "export", "kubeconfig", "--name", name)
    if image == versions.RELEASED_NODE_IMAGE:
        _add_storage(state, nodes(name)[0])
    wait(state, name, image, settle=repaired)
    _mark_completed(existing or nodes(name))


def _is_lost(node: Node) -> bool:
    """Return whether Docker lists a node as running although it cannot execute commands, as when it was killed."""
    return node.state == "running" and not shell.succeeds(["docker", "exec", node.name, "true"], timeout_seconds=20)


def _create(state: State, name: str, image: str, count: int) -> None:
    lacks = "CAP_SYS_RESOURCE" in engine.missing_capabilities()
    path = state.folder("kind") / "kind.yaml"
    content.write_atomically(path, configuration(state, name, count, lacks_resource_capability=lacks))
    log = state.logs / "kind-create.log"
    with console.step(f"create kind cluster {name} with {count} nodes", expected_seconds=35):
        kind(state, "create", "cluster", "--name", name, "--image", image, "--config", str(path), log=log)


def _add_storage(state: State, control_plane: Node) -> None:
    """Add the storage provisioner, which a node image built here has, to a cluster of the released node image."""
    addons = state.build / "addons.tar"
    archive.write([archive.Image((images.KUBE_IMAGE,), (images.kube_layer(state.bin / "kube"),))], addons)
    ctr = ["ctr", "--namespace=k8s.io", "images", "import", "--all-platforms", "--digests", "-"]
    with addons.open("rb") as stream:
        shell.run(["docker", "exec", "--interactive", control_plane.name, *ctr], stdin=stream)
    kubectl(state, "delete", "storageclass", "standard", "--ignore-not-found")  # it has another provisioner
    kubectl(state, "apply", "-f", "-", stdin=node_image.manifest("storage.yaml"))


def _repair(existing: list[Node]) -> bool:
    """Start nodes that do not run, the control plane first; return whether any node started recently."""
    for node in existing:
        if node.state == "paused":
            with console.step(f"unpause node {node.name}"):
                shell.run(["docker", "unpause", node.name])
        elif node.state != "running":
            with console.step(f"start node {node.name}, which is {node.state}"):
                shell.run(["docker", "start", node.name])
    return not all(node.settled for node in existing)


MARK = "/kind/tfdist-complete"


def _was_completed(existing: list[Node]) -> bool:
    """Return whether creation completed; only then the control plane's file system has the marker."""
    if not existing or existing[0].role != "control-plane":
        return False
    return shell.succeeds(["docker", "cp", f"{existing[0].name}:{MARK}", "-"])


def _mark_completed(existing: list[Node]) -> None:
    shell.run(["docker", "exec", existing[0].name, "touch", MARK])


def wait(state: State, name: str, image: str, *, settle: bool) -> None:
    """Wait until every node is Ready and every server is available.

    Args:
        state: the state folder.
        name: of the cluster.
        image: the node image, which decides what servers there are.
        settle: the cluster was just repaired: statuses may be older than that, so they must stay ready for some
            seconds.
    """
    servers = SERVERS if image == versions.RELEASED_NODE_IMAGE else SERVERS + BUILT_SERVERS
    required = SETTLED_ANSWERS if settle else 1
    start_times = _start_times(name)
    consecutive = 0

    def settled() -> bool:
        nonlocal consecutive
        consecutive = consecutive + 1 if _available(state, servers, start_times) else 0
        return consecutive >= required

    with console.step("wait for the nodes and the servers of the cluster", expected_seconds=20):
        shell.wait_until(settled, timeout_seconds=READY_SECONDS, what="all nodes Ready and all servers available")


def _start_times(name: str) -> dict[str, str]:
    """Return when each node's container was last started, RFC 3339 in UTC."""
    names = [node.name for node in nodes(name)]
    output = shell.run(["docker", "inspect", "--format", "{{.State.StartedAt}}", *names])
    return dict(zip(names, output.split(), strict=True))


def _available(state: State, servers: tuple[str, ...], start_times: dict[str, str]) -> bool:
    """Return whether all nodes and servers are ready by statuses that are current."""
    try:
        output = kubectl(
            state, "get", "nodes,deployments,daemonsets,pods", "--all-namespaces", "--output=json", timeout_seconds=20
        )
    except ClusterError:
        return False
    objects = json.loads(output)["items"]
    items = {f"{item['kind'].lower()}/{item['metadata']['name']}": item for item in objects}
    node_objects = [item for item in objects if item["kind"] == "Node"]
    system = [i for i in objects if i["kind"] == "Pod" and i["metadata"]["namespace"] == "kube-system"]
    return (
        bool(node_objects)
        and not believed_pods(system, start_times)
        and all(_is_ready(node["status"]) for node in node_objects)
        and all(name in items and is_rolled_out(items[name]) for name in servers)
    )


def _is_ready(status: dict[str, Any]) -> bool:
    return any(item["type"] == "Ready" and item["status"] == "True" for item in status.get("conditions", []))


def is_rolled_out(item: dict[str, Any]) -> bool:
    """Return whether all pods of a Deployment or DaemonSet are of its newest version and ready."""
    status = item.get("status", {})
    if status.get("observedGeneration") != item["metadata"]["generation"]:
        return False
    if item["kind"] == "Deployment":
        desired, counts = item["spec"]["replicas"], ("updatedReplicas", "readyReplicas", "availableReplicas")
    else:
        desired = status.get("desiredNumberScheduled")
        counts = ("updatedNumberScheduled", "numberReady", "numberAvailable")
    return bool(desired) and all(status.get(count) == desired for count in counts)


def delete(state: State, name: str) -> bool:
    """Delete the cluster and its containers; return whether there was one."""
    existing = nodes(name)
    if existing:
        with console.step(f"delete kind cluster {name}"):
            gobuild.program(state, gobuild.KIND)
            kind(state, "delete", "cluster", "--name", name)
            remaining = nodes(name)
            if remaining:
                shell.run(["docker", "rm", "--force", "--volumes", *(node.name for node in remaining)])
    content.remove(state.kubeconfig)
    return bool(existing)


def require_root_for_build() -> None:
    """Check that the node image can be built.

    Raises:
        ClusterError: only root can make a root file system.
    """
    if os.geteuid() != 0:
        raise ClusterError(
            f"Docker cannot pull {versions.RELEASED_NODE_IMAGE}, and building a node image needs root "
            "(debootstrap, chroot). Run the same command as root, or make the image available to Docker"
        )
