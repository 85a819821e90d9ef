"""`up`, `down` and `build`: the order of the parts; independent parts are built concurrently."""

import contextlib
import shutil
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from pathlib import Path

from tfdist_cluster import (
    console,
    content,
    control_plane,
    engine,
    gobuild,
    kind,
    lock,
    node_image,
    rootfs,
    shell,
    versions,
)
from tfdist_cluster.errors import ClusterError
from tfdist_cluster.paths import State, cluster_name

TARGETS = ("kind", "kube", "pause", "rootfs", "node-image")


def up(state: State, count: int) -> None:
    """Create or repair the cluster, from any state."""
    with lock.exclusive(state.root / "cluster.lock"):
        _require_disk(state)
        engine.ensure(state)
        image = _node_image(state)
        kind.ensure(state, cluster_name(), image, count)
    console.info(f"cluster {cluster_name()} is usable; kubeconfig: {state.kubeconfig}")


def _node_image(state: State) -> str:
    """Return a node image that the engine has: the released one if a registry answers, else one built here."""
    released = versions.RELEASED_NODE_IMAGE
    if node_image.exists(released) or (not gobuild.is_cached(state, gobuild.KUBE) and _pull(released)):
        build(state, ("kind", "kube"))
        return released
    return build(state, TARGETS)


def _pull(image: str) -> bool:
    """Pull an image, if a registry confirms within seconds that it has it."""
    if not shell.succeeds(["docker", "manifest", "inspect", image], timeout_seconds=15):
        return False
    with console.step(f"pull {image}", expected_seconds=60):
        return shell.succeeds(["docker", "pull", image], timeout_seconds=1200)


def build(state: State, targets: tuple[str, ...]) -> str:
    """Build parts; return the name of the node image, or nothing if it is not a target."""
    gobuild.require_architecture()
    with lock.exclusive(state.root / "build.lock"), ThreadPoolExecutor() as pool:
        parts = _start(state, pool, targets)
        _wait(list(parts.values()))
        if "node-image" not in targets:
            return ""
        engine.ensure(state)
        return node_image.build(
            state, node_image.Parts(parts["kube"].result(), parts["pause"].result(), parts["rootfs"].result())
        )


def _start(state: State, pool: ThreadPoolExecutor, targets: tuple[str, ...]) -> "dict[str, Future[Path]]":
    selected = {*targets, *(("kube", "pause", "rootfs") if "node-image" in targets else ())}
    parts = {}
    if "rootfs" in selected:
        kind.require_root_for_build()
        parts["rootfs"] = pool.submit(rootfs.ensure, state)
    for program in (gobuild.KIND, gobuild.PAUSE, gobuild.KUBE):
        if program.name in selected:
            parts[program.name] = pool.submit(gobuild.program, state, program)
    return parts


def _wait(parts: "list[Future[Path]]") -> None:
    """Wait for all parts; raise the first error at once, though the executor still waits for the others."""
    for part in as_completed(parts):
        part.result()


def needs(state: State) -> tuple[int, str]:
    """Return the GiB of disk and the time on two cores that a usable cluster and the images still need."""
    if gobuild.is_cached(state, gobuild.KUBE):
        return versions.CACHED_FREE_GIB, "2 min"
    return versions.MINIMUM_FREE_GIB, "12 min, most of it compiling Kubernetes; the next ones 2 min"


def _require_disk(state: State) -> None:
    required, _ = needs(state)
    for folder, variable in ((state.root, "TFDIST_STATE"), (state.cache, "TFDIST_CACHE")):
        free_gib = shutil.disk_usage(folder).free / 2**30
        if free_gib < required:
            raise ClusterError(
                f"{folder} has {free_gib:.0f} GiB free, and {required} are needed; "
                f"free some space, or set {variable} to a folder elsewhere"
            )


def clean_cache(state: State) -> None:
    """Remove all build outputs after the running builds of all clones end; clones build again what they need."""
    locks = sorted([*state.cache.glob("*/.*.lock"), state.cached("images") / "lock"])
    with contextlib.ExitStack() as stack, console.step(f"remove the builds in {state.cache}"):
        for path in locks:
            stack.enter_context(lock.exclusive(path))
        for path in state.cache.glob("*/*"):
            if path not in locks:
                shell.run(["rm", "--recursive", "--force", "--one-file-system", path])


def down(state: State, *, purge: bool) -> None:
    """Remove the cluster and everything that runs; with `purge` also the state of this clone, not the cache."""
    with lock.exclusive(state.root / "cluster.lock"):
        if not engine.answers() and engine.was_started(state):
            engine.ensure(state)  # only an engine that adopts the containers of a killed one can remove them
        if engine.answers():
            kind.delete(state, cluster_name())
            if engine.ours(state) is not None:
                shell.succeeds(["docker", "network", "rm", "kind"])  # its bridge would outlive the engine
        if engine.stop(state):
            console.info("stopped the Docker engine that was started here")
        for path in state.shared.iterdir():
            content.remove(path)
    if purge:
        control_plane.down(state)
        with console.step(f"remove {state.root}"):
            shell.run(["rm", "--recursive", "--force", "--one-file-system", state.root])
