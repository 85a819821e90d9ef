"""Brings image archives into the cluster in use: the project's own, the user's kind or minikube, or a registry.

Which cluster is in use follows from `KUBECONFIG` and its current context alone; nothing is guessed. A cluster
whose nodes already list an image is left as it is.
"""

import json
import os
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path

from tfdist_cluster import console, paths, shell
from tfdist_cluster import load as cluster_load
from tfdist_cluster.errors import ClusterError
from tfdist_images import builders, content, programs
from tfdist_images.build import Image


class Destination(StrEnum):
    """How images get into a cluster."""

    OWN = "own"
    KIND = "kind"
    MINIKUBE = "minikube"
    REGISTRY = "registry"


def destination(*, context: str | None, own: bool, registry: str | None) -> Destination:
    """Decide from the current context, whether the cluster is the project's own, and the user's registry."""
    if registry:
        return Destination.REGISTRY
    if own:
        return Destination.OWN
    if context and context.startswith("kind-"):
        return Destination.KIND
    if context == "minikube":
        return Destination.MINIKUBE
    raise ClusterError(
        f"the cluster of context {context!r} is neither kind nor minikube, so images cannot be copied into its nodes. "
        "Set REGISTRY to a registry that you can push to and its nodes can pull from, such as "
        "REGISTRY=registry.example.com/team."
    )


def load(images: Sequence[Image], environment: Mapping[str, str] = os.environ) -> None:
    """Bring the images into the cluster in use, or push them to the registry that `REGISTRY` names."""
    registry, own = environment.get("REGISTRY"), is_own_cluster(environment)
    context = None if own else (programs.output(["kubectl", "config", "current-context"]) or "").strip()
    way = destination(context=context, own=own, registry=registry)
    if way is Destination.REGISTRY and registry:
        push(images, registry)
        return
    if way is Destination.OWN:
        cluster_load.load([image.archive for image in images])
        return
    missing = [image for image in images if not _nodes_have(image)]
    for image in images:
        if image not in missing:
            console.info(f"image {image.name} is in the cluster already")
    for image in missing:
        with console.step(f"load {image.name} into the cluster", expected_seconds=20):
            shell.run(_command(way, context or "", image.archive))


def is_own_cluster(environment: Mapping[str, str]) -> bool:
    """Return whether the cluster in use is the one that `tfdist_cluster` makes: no KUBECONFIG is set, or its own is."""
    kubeconfig = environment.get("KUBECONFIG")
    return not kubeconfig or paths.State.from_environment().root in Path(kubeconfig).resolve().parents


def _command(way: Destination, context: str, archive: Path) -> list[str | Path]:
    """Return the command that loads an archive into the user's kind or minikube."""
    if way is Destination.KIND:
        return ["kind", "load", "image-archive", archive, "--name", context.removeprefix("kind-")]
    return ["minikube", "image", "load", archive]


def _nodes_have(image: Image) -> bool:
    """Return whether every node lists the image; a node lists its 50 largest, which ours are among."""
    output = programs.output(["kubectl", "get", "nodes", "--output=json", "--request-timeout=20s"])
    return output is not None and all_nodes_list(json.loads(output), image.name)


def all_nodes_list(nodes: Mapping[str, list[dict[str, dict[str, list[dict[str, list[str]]]]]]], name: str) -> bool:
    """Return whether each node of a NodeList that takes pods of ours has an image called `name`."""
    workers = [node for node in nodes["items"] if not _is_control_plane(node)] or nodes["items"]
    return bool(workers) and all(
        any(image == name or image.endswith(f"/{name}") for image in _image_names(node)) for node in workers
    )


def _is_control_plane(node: Mapping[str, object]) -> bool:
    metadata = node.get("metadata")
    labels = metadata.get("labels", {}) if isinstance(metadata, dict) else {}
    return "node-role.kubernetes.io/control-plane" in labels


def _image_names(node: Mapping[str, dict[str, list[dict[str, list[str]]]]]) -> list[str]:
    return [name for image in node["status"].get("images", []) for name in image.get("names") or []]


def push(images: Sequence[Image], registry: str) -> None:
    """Push the images to the user's registry, under the names that `tfdist_images names` then prints."""
    builder = builders.builder_of(builders.choose())
    for image in images:
        name = content.image_name(image.recipe, image.digest, registry)
        with console.step(f"pushing {name}"):
            builder.push(image.archive, image.name, name)
