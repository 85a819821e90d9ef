"""The image of a kind node, built from Debian packages and the executable of `hack/cluster/go`.

It follows the Dockerfile of kind's own base image, whose files are taken from kind's Go module. The image's tag is the
hash of everything that goes in, so an image that exists is current by its name; a killed build leaves no tag.
"""

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from string import Template

from tfdist_cluster import archive, console, content, gobuild, images, rootfs, shell, versions
from tfdist_cluster.errors import ClusterError
from tfdist_cluster.paths import GO_MODULE, MANIFESTS, PACKAGE, State

RECIPE = ("node_image.py", "rootfs.py", "images.py", "archive.py", "versions.py")  # a change makes another image
# What would start on a Debian machine and must not in a node; patterns as in kind's Dockerfile.
UNWANTED_UNITS = (
    "lib/systemd/system/sysinit.target.wants/systemd-tmpfiles-setup.service",
    "lib/systemd/system/multi-user.target.wants/*",
    "etc/systemd/system/*.wants/*",
    "lib/systemd/system/local-fs.target.wants/*",
    "lib/systemd/system/sockets.target.wants/*udev*",
    "lib/systemd/system/sockets.target.wants/*initctl*",
    "lib/systemd/system/basic.target.wants/*",
    "lib/systemd/system/containerd.service",  # kind's own unit is in etc
)
IMPORT = """
mount -t tmpfs tmpfs /run
containerd --log-level warn > /tmp/containerd.log 2>&1 &
for attempt in $(seq 100); do ctr version > /dev/null 2>&1 && break; sleep 0.1; done
ctr --namespace k8s.io images import --all-platforms --no-unpack --digests /images.tar ||
  { cat /tmp/containerd.log; exit 1; }
"""
DOCKERFILE = """
# sets systemd's container variable and its shutdown signal
ENV container=docker
STOPSIGNAL SIGRTMIN+3
ENTRYPOINT ["/usr/local/bin/entrypoint", "/sbin/init"]
"""


@dataclass(frozen=True, slots=True)
class Parts:
    """What an image is made of."""

    kube: Path
    pause: Path
    debian: Path

    def image(self) -> str:
        """Return the image's name; equal parts and recipe give an equal name."""
        recipe = content.files_digest([*(PACKAGE / name for name in RECIPE), MANIFESTS, GO_MODULE / "go.mod"])
        programs = [content.file_digest(path) for path in (self.kube, self.pause)]
        return f"localhost/tfdist-node:{content.digest(recipe, programs, rootfs.key())[:16]}"


def exists(image: str) -> bool:
    """Return whether the engine has an image."""
    return shell.succeeds(["docker", "image", "inspect", image])


def build(state: State, parts: Parts) -> str:
    """Build the image if the engine does not have it, and return its name."""
    image = parts.image()
    if exists(image):
        return image
    with console.step(f"build the node image {image}", expected_seconds=60):
        root = state.build / ".node.partial"
        content.remove(root)
        shell.run(shell.bound(["cp", "--archive", "--reflink=auto", parts.debian, root]))
        _configure(root)
        _install_kubernetes(root, parts.kube)
        _import_images(state, root, parts)
        _hand_over(root, image)
        content.remove(root)
    return image


def _configure(root: Path) -> None:
    """Do what kind's Dockerfile does to a Debian."""
    files = gobuild.module_folder("sigs.k8s.io/kind") / "images" / "base" / "files"
    # The module cache is read-only and has lost which files are executable.
    shell.run(["cp", "--recursive", "--no-preserve=mode,ownership", f"{files}/.", root])
    for script in ("usr/local/bin/entrypoint", "usr/local/bin/clean-install", "kind", "kind/bin", *_scripts(root)):
        (root / script).chmod(0o755)
    for pattern in UNWANTED_UNITS:
        for unit in root.glob(pattern):
            content.remove(unit)
    with (root / "etc/systemd/journald.conf").open("a") as configuration:
        configuration.write("ReadKMsg=no\n")
    for folder in ("etc/kubernetes/manifests", "opt/cni/bin", "kind/manifests", "etc/cni/net.d"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    _link(root / "sbin/init", "/usr/lib/systemd/systemd")
    _link(root / "usr/local/bin/containerd", "/usr/bin/containerd")
    units = ("kubelet.service", "containerd.service", "undo-mount-hacks.service")
    shell.run(["chroot", root, "systemctl", "enable", *units])
    shell.run(["chroot", root, "systemctl", "mask", "systemd-binfmt.service"])
    for plugin in ("host-local", "loopback", "ptp", "portmap"):
        shutil.copy2(root / "usr/lib/cni" / plugin, root / "opt/cni/bin" / plugin)
    _base_specification(root)


def _scripts(root: Path) -> list[str]:
    return [str(path.relative_to(root)) for path in (root / "kind/bin").iterdir()]


def _base_specification(root: Path) -> None:
    """Write the specification that containers start from: with kind's hook, without limits of resources."""
    specification = json.loads(shell.run(["chroot", root, "ctr", "oci", "spec"]))
    hooks = specification.setdefault("hooks", {})
    hooks.setdefault("createContainer", []).append({"path": "/kind/bin/mount-product-files.sh"})
    specification["process"].pop("rlimits", None)
    (root / "etc/containerd/cri-base.json").write_text(json.dumps(specification))


def _install_kubernetes(root: Path, kube: Path) -> None:
    shutil.copy2(kube, root / "usr/bin/kube")
    for name in ("kubelet", "kubeadm", "kubectl"):
        _link(root / "usr/bin" / name, "kube")
    (root / "kind/version").write_text(versions.KUBERNETES)
    # kind's own names of the manifests that it applies when it creates a cluster
    (root / "kind/manifests/default-cni.yaml").write_text(manifest("network.yaml"))
    (root / "kind/manifests/default-storage.yaml").write_text(manifest("storage.yaml"))


def manifest(name: str) -> str:
    """Return a manifest with names and versions filled in."""
    return Template((MANIFESTS / name).read_text()).substitute(
        kube_image=images.KUBE_IMAGE,
        network_image=images.NETWORK_IMAGE,
        service_range=versions.SERVICE_RANGE,
        shared_mount=versions.SHARED_MOUNT,
    )


def _import_images(state: State, root: Path, parts: Parts) -> None:
    """Put the images into the content store of the root, with the containerd of the root."""
    archive.write(images.node_images(parts.kube, parts.pause, root), root / "images.tar")
    shutil.rmtree(root / "var/lib/containerd", ignore_errors=True)
    script = f"mount -t proc proc {root}/proc && exec chroot {root} /bin/sh -c '{IMPORT}'"
    shell.run(rootfs.private(["sh", "-c", script]), log=state.logs / "import-images.log")
    (root / "images.tar").unlink()
    (root / "tmp/containerd.log").unlink(missing_ok=True)


def _hand_over(root: Path, image: str) -> None:
    """Give the folder to the engine as an image of one layer."""
    pack = ["tar", "--directory", str(root), "--numeric-owner", "--create", "--file=-"]
    pack += [f"--exclude=./{folder}/*" for folder in ("proc", "sys", "dev", "run", "tmp")]
    layer = f"{image}-layer"
    with subprocess.Popen([*pack, "."], stdout=subprocess.PIPE) as packing:
        shell.run(["docker", "import", "-", layer], stdin=packing.stdout)
    if packing.returncode != 0:
        raise ClusterError(f"tar could not read all of {root}")
    # Only a build can set the signal; without a context it needs no file but this one.
    shell.run(["docker", "build", "--tag", image, "-"], stdin=f"FROM {layer}\n{DOCKERFILE}")
    shell.run(["docker", "image", "rm", layer])


def _link(path: Path, target: str) -> None:
    content.remove(path)
    path.symlink_to(target)
