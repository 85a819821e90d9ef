"""A volume of the demonstration, filled once.

An annotation of its claim has the hash of the contents, and is written after the last file: it is deleted with the
volume, and a later run checks it without a pod.
"""

import contextlib
import tarfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tfdist_cluster import console, content, paths
from tfdist_cluster.errors import ClusterError
from tfdist_demo import install, manifests
from tfdist_demo.kubectl import Kubectl

START_SECONDS: Final = 180


@dataclass(frozen=True, slots=True)
class Contents:
    """The desired contents of a volume, and the commands that create them."""

    claim: str
    what: str
    """As text."""
    files: Mapping[str, Path]
    """Files of this machine, by their names below `folder`."""
    folder: str
    """Where in the pod they are unpacked; the volume is at /volume."""
    commands: tuple[tuple[str, ...], ...]
    """Run in the pod after that, one after the other."""

    @property
    def mark(self) -> str:
        """The hash of all of it."""
        files_hash = content.files_digest(list(self.files.values()))
        return content.digest(sorted(self.files), files_hash, self.folder, self.commands)[:16]


def prepare(kubectl: Kubectl, trainer: str, contents: Contents, *, storage_class: str | None, access_mode: str) -> None:
    """Make the namespace and the claim, and fill the volume unless it holds this data already."""
    kubectl.apply(manifests.restricted_namespace(kubectl.place.namespace))
    if _claim(kubectl, contents.claim) is None:
        namespace = kubectl.place.namespace
        kubectl.apply(manifests.claim(contents.claim, namespace, storage_class=storage_class, access_mode=access_mode))
    claim = _claim(kubectl, contents.claim)
    if claim and claim["metadata"].get("annotations", {}).get(manifests.DATA_ANNOTATION) == contents.mark:
        console.info(f"    the volume holds {contents.what} already")
        return
    with (
        console.step(f"put {contents.what} into the volume", expected_seconds=30),
        _loader_pod(kubectl, trainer, contents.claim),
    ):
        _fill(kubectl, contents)
    in_namespace = f"--namespace={kubectl.place.namespace}"
    mark = f"{manifests.DATA_ANNOTATION}={contents.mark}"
    kubectl.run("annotate", "pvc", contents.claim, in_namespace, mark, "--overwrite")


def _claim(kubectl: Kubectl, name: str) -> dict[str, Any] | None:
    return kubectl.get("pvc", name, f"--namespace={kubectl.place.namespace}")


@contextlib.contextmanager
def _loader_pod(kubectl: Kubectl, trainer: str, claim: str) -> Iterator[None]:
    """Run the loader's pod during the body; replace the pod of an interrupted run."""
    _delete_loader(kubectl)
    kubectl.apply(manifests.loader(trainer, kubectl.place.namespace, claim))
    try:
        start = time.monotonic()
        while not _runs(kubectl):
            elapsed = time.monotonic() - start
            install.explain_trouble(kubectl, kubectl.place.namespace, "", waited_seconds=elapsed)
            if elapsed > START_SECONDS:
                raise ClusterError(
                    f"pod {manifests.LOADER} does not run after {START_SECONDS} s. "
                    f"Check: kubectl -n {kubectl.place.namespace} get pvc,pods,events"
                )
            time.sleep(0.5)
        yield
    finally:
        _delete_loader(kubectl)


def _runs(kubectl: Kubectl) -> bool:
    pod = kubectl.get("pod", manifests.LOADER, f"--namespace={kubectl.place.namespace}")
    return pod is not None and (pod.get("status") or {}).get("phase") == "Running"


def _delete_loader(kubectl: Kubectl) -> None:
    in_namespace = f"--namespace={kubectl.place.namespace}"
    kubectl.run("delete", "pod", manifests.LOADER, in_namespace, "--ignore-not-found", "--wait=true", "--now")


def _fill(kubectl: Kubectl, contents: Contents) -> None:
    """Stream the files into the pod and run the commands there."""
    archive = paths.State.from_environment().folder("datasets") / f"{contents.claim}.tar"
    with tarfile.open(archive, "w") as tar:
        for name, path in contents.files.items():
            tar.add(path, arcname=name)
    inside = ["exec", f"--namespace={kubectl.place.namespace}", manifests.LOADER]
    with archive.open("rb") as stream:
        unpack = ["tar", "-C", contents.folder, "-xf", "-"]
        kubectl.run(*inside, "--stdin", "--", *unpack, stdin=stream)
    archive.unlink()
    for command in contents.commands:
        kubectl.run(*inside, "--", *command, timeout_seconds=300)
