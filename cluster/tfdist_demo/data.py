"""Fashion-MNIST: from Debian's package into the volume of the demonstration, once.

The claim carries the hash of what its volume holds, written when the conversion has ended: the volume and the
mark come and go together, and a later run needs no pod to know.
"""

import contextlib
import os
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tfdist_cluster import console, content, paths, shell
from tfdist_cluster.errors import ClusterError
from tfdist_demo import install, manifests
from tfdist_demo.kubectl import Kubectl
from tfdist_images import programs

PACKAGE: Final = "dataset-fashion-mnist"
IN_PACKAGE: Final = "usr/share/datasets/fashion-mnist"
FILES: Final = tuple(
    f"{split}-{kind}.gz" for split in ("train", "t10k") for kind in ("images-idx3-ubyte", "labels-idx1-ubyte")
)
CONVERTER: Final = ("tfdist_trainer.data.fashion_mnist", "tfrecord", "8")
"""Module, format and number of files of each split."""
START_SECONDS: Final = 180


def fetch() -> Path:
    """Return a folder with the four idx files: `FASHION_MNIST`, or Debian's package, unpacked but not installed."""
    given = os.environ.get("FASHION_MNIST")
    installed = Path("/", IN_PACKAGE)
    for folder in [Path(given)] if given else [installed]:
        if all((folder / name).exists() for name in FILES):
            return folder
    if given:
        raise ClusterError(f"FASHION_MNIST is {given}, which lacks some of {', '.join(FILES)}")
    unpacked = paths.State.from_environment().folder("datasets") / PACKAGE
    content.publish(unpacked, content.digest(PACKAGE), _download)
    return unpacked / IN_PACKAGE


def _download(folder: Path) -> None:
    """Download Debian's package and unpack it into `folder`."""
    folder.mkdir()
    with console.step(f"download {PACKAGE} (31 MB, 70,000 labelled images)"):
        try:
            programs.apt_get("download", PACKAGE, cwd=folder)
        except ClusterError:
            programs.apt_get("update")
            programs.apt_get("download", PACKAGE, cwd=folder)
        package = next(folder.glob("*.deb"))
        shell.run(["dpkg-deb", "--extract", package, folder])
        package.unlink()


def prepare_volume(kubectl: Kubectl, trainer: str, *, storage_class: str | None, access_mode: str) -> None:
    """Make the namespace and the claim, and fill the volume unless it holds this data already."""
    kubectl.apply(manifests.namespace())
    if _claim(kubectl) is None:
        kubectl.apply(manifests.claim(storage_class=storage_class, access_mode=access_mode))
    source = fetch()
    wanted = content.digest(content.files_digest([source / name for name in FILES]), CONVERTER)[:16]
    claim = _claim(kubectl)
    if claim and claim["metadata"].get("annotations", {}).get(manifests.DATA_ANNOTATION) == wanted:
        console.say("    the volume holds Fashion-MNIST already")
        return
    with console.step("convert Fashion-MNIST into the volume", expected_seconds=30), _loader_pod(kubectl, trainer):
        _fill(kubectl, source)
    in_namespace = f"--namespace={manifests.NAMESPACE}"
    mark = f"{manifests.DATA_ANNOTATION}={wanted}"
    kubectl.run("annotate", "pvc", manifests.CLAIM, in_namespace, mark, "--overwrite")


def _claim(kubectl: Kubectl) -> dict[str, dict[str, dict[str, str]]] | None:
    return kubectl.get("pvc", manifests.CLAIM, f"--namespace={manifests.NAMESPACE}")


@contextlib.contextmanager
def _loader_pod(kubectl: Kubectl, trainer: str) -> Iterator[None]:
    """Have the loader's pod run while the body does; one that an interrupted run left is replaced."""
    _delete_loader(kubectl)
    kubectl.apply(manifests.loader(trainer))
    try:
        started = time.monotonic()
        while not _runs(kubectl):
            waited = time.monotonic() - started
            install.explain_trouble(kubectl, manifests.NAMESPACE, "", waited_seconds=waited)
            if waited > START_SECONDS:
                raise ClusterError(
                    f"pod {manifests.LOADER} does not run after {START_SECONDS} s. "
                    f"Look at: kubectl -n {manifests.NAMESPACE} get pvc,pods,events"
                )
            time.sleep(0.5)
        yield
    finally:
        _delete_loader(kubectl)


def _runs(kubectl: Kubectl) -> bool:
    pod = kubectl.get("pod", manifests.LOADER, f"--namespace={manifests.NAMESPACE}")
    return pod is not None and (pod.get("status") or {}).get("phase") == "Running"


def _delete_loader(kubectl: Kubectl) -> None:
    in_namespace = f"--namespace={manifests.NAMESPACE}"
    kubectl.run("delete", "pod", manifests.LOADER, in_namespace, "--ignore-not-found", "--wait=true", "--now")


def _fill(kubectl: Kubectl, source: Path) -> None:
    """Stream the idx files into the pod and convert them there."""
    archive = paths.State.from_environment().folder("datasets") / "fashion-mnist.tar"
    with tarfile.open(archive, "w") as tar:
        for name in FILES:
            tar.add(source / name, arcname=name)
    inside = ["exec", f"--namespace={manifests.NAMESPACE}", manifests.LOADER]
    module, kind, shards = CONVERTER
    with archive.open("rb") as stream:
        kubectl.run(*inside, "--stdin", "--", "tar", "-C", manifests.TMP, "-xf", "-", stdin=stream)
    archive.unlink()
    kubectl.run(*inside, "--", "mkdir", "-p", "/volume/data", "/volume/checkpoints")
    convert = ["python", "-m", module, "--source", manifests.TMP, "--out", "/volume/data"]
    kubectl.run(*inside, "--", *convert, "--format", kind, "--shards", shards, timeout_seconds=300)
