"""Loading image archives into the nodes of the kind cluster, all nodes at once, and only if it is needed.

An archive is what `docker save` writes. A node has an image if the archive's tag refers, in the node's containerd, to a
manifest with the same configuration digest, which is the image's id.
"""

import json
import re
import tarfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tfdist_cluster import console, kind, shell
from tfdist_cluster.errors import ClusterError
from tfdist_cluster.paths import cluster_name


@dataclass(frozen=True, slots=True)
class Archived:
    """One image of an archive."""

    tag: str
    image_id: str  # hexadecimal sha256 of the configuration


def images(archive: Path) -> list[Archived]:
    """Return the images of an archive, each with each of its tags.

    Raises:
        ClusterError: the file is missing, or is not such an archive.
    """
    try:
        with tarfile.open(archive) as tar:
            member = tar.extractfile("manifest.json")
            manifest = json.load(member) if member else []
    except (OSError, KeyError, tarfile.TarError, ValueError) as error:
        raise ClusterError(f"{archive} is not an image archive as `docker save` writes it: {error}") from error
    return [
        Archived(canonical(tag), _hexadecimal(image["Config"], archive))
        for image in manifest
        for tag in image.get("RepoTags") or []
    ]


def _hexadecimal(configuration: str, archive: Path) -> str:
    match = re.search(r"[0-9a-f]{64}", configuration)  # "<hex>.json", or "blobs/sha256/<hex>" of newer engines
    if match is None:
        raise ClusterError(f"{archive}: the manifest names its configuration {configuration!r}, without a digest")
    return match[0]


def canonical(tag: str) -> str:
    """Return a tag as containerd stores it: with a registry's name and a version."""
    first, slash, _ = tag.partition("/")
    if not slash:
        tag = f"docker.io/library/{tag}"
    elif "." not in first and ":" not in first and first != "localhost":
        tag = f"docker.io/{tag}"
    return tag if ":" in tag.rpartition("/")[2] else f"{tag}:latest"


def load(archives: Iterable[Path]) -> None:
    """Load archives into every node that runs workloads.

    Raises:
        ClusterError: there is no running cluster, or an archive cannot be read.
    """
    name = cluster_name()
    running_nodes = [node for node in kind.nodes(name) if node.state == "running"]
    targets = [node for node in running_nodes if node.role == "worker"] or running_nodes
    if not targets:
        raise ClusterError(f"no node of the cluster {name} runs; `up` makes one")
    contents = {archive: images(archive) for archive in archives}
    with ThreadPoolExecutor(len(targets)) as pool:
        list(pool.map(lambda node: _load_into(node.name, contents), targets))


def _load_into(node: str, contents: dict[Path, list[Archived]]) -> None:
    for archive, expected in contents.items():
        if expected and all(image_id(node, image.tag) == image.image_id for image in expected):
            console.info(f"    {node} has {', '.join(image.tag for image in expected)}")
            continue
        with console.step(f"load {archive.name} into {node}"), archive.open("rb") as stream:
            ctr = ["ctr", "--namespace=k8s.io", "images", "import", "--all-platforms", "--digests", "-"]
            shell.run(["docker", "exec", "--interactive", node, *ctr], stdin=stream)


def image_id(node: str, tag: str) -> str | None:
    """Return the id of the image that a node has under a tag, or None."""
    rows = shell.run(_ctr(node, "images", "ls", f"name=={tag}")).splitlines()[1:]
    if not rows:
        return None
    manifest = json.loads(shell.run(_ctr(node, "content", "get", rows[0].split()[2])))
    if "manifests" in manifest:  # an index; archives hold images of one platform
        manifest = json.loads(shell.run(_ctr(node, "content", "get", manifest["manifests"][0]["digest"])))
    return str(manifest["config"]["digest"]).removeprefix("sha256:")


def _ctr(node: str, *arguments: str) -> list[str]:
    return ["docker", "exec", node, "ctr", "--namespace=k8s.io", *arguments]
