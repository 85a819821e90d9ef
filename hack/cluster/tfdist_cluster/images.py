"""The images that a node carries, described from the executables built here and the node's own root.

Two images hold every server: one with the executable alone, and one that adds iptables, ipset and conntrack for
kube-proxy and for the enforcement of NetworkPolicy.
"""

import re
from pathlib import Path
from typing import Final

from tfdist_cluster import gobuild, shell, versions
from tfdist_cluster.archive import Copy, Entry, Folder, Image, Layer, Link, Text

KUBE_IMAGE: Final = f"localhost/tfdist-kube:{versions.KUBERNETES}"
NETWORK_IMAGE: Final = f"localhost/tfdist-network:{versions.KUBERNETES}"
BUSYBOX_IMAGE: Final = "localhost/busybox:1"

ACCOUNTS: Final = "root:x:0:0:root:/root:/sbin/nologin\nnobody:x:65534:65534:nobody:/:/sbin/nologin\n"
BASE: Final[Layer] = {
    "tmp": Folder(0o1777),
    "etc/passwd": Text(ACCOUNTS),
    "etc/nsswitch.conf": Text("hosts: files dns\n"),
}
NETWORK_PROGRAMS: Final = ("/usr/sbin/xtables-nft-multi", "/usr/sbin/nft", "/usr/sbin/conntrack", "/usr/sbin/ipset")
MAXIMUM_LINKS: Final = 40  # as in the kernel
IPTABLES_NAMES: Final = tuple(
    family + action for family in ("iptables", "ip6tables") for action in ("", "-save", "-restore")
)


def node_images(kube: Path, pause: Path, root: Path) -> list[Image]:
    """Return all images of a node, from two executables and the node's root file system."""
    upstream = "registry.k8s.io"  # the names that kubeadm asks for; nothing is fetched from there
    servers = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
    alone = kube_layer(kube)
    return [
        Image(
            tags=(
                *(f"{upstream}/{name}:{versions.KUBERNETES}" for name in servers),
                f"{upstream}/etcd:{versions.ETCD_TAG}",
                KUBE_IMAGE,
            ),
            layers=(alone,),
        ),
        Image(
            tags=(f"{upstream}/coredns/coredns:{versions.COREDNS_TAG}",),
            layers=(alone,),
            entrypoint=("/usr/local/bin/coredns",),
        ),
        Image(
            tags=(f"{upstream}/kube-proxy:{versions.KUBERNETES}", NETWORK_IMAGE),
            layers=(alone, network_layer(root)),
        ),
        Image(
            tags=(f"{upstream}/pause:{versions.PAUSE_TAG}",),
            layers=({"pause": Copy(pause)},),
            entrypoint=("/pause",),
        ),
        busybox(root),
    ]


def kube_layer(kube: Path) -> Layer:
    """Return the executable, under the names of its components."""
    links: dict[str, Entry] = {f"usr/local/bin/{name}": Link("kube") for name in gobuild.COMPONENTS}
    return {**BASE, "usr/local/bin/kube": Copy(kube), **links}


def network_layer(root: Path) -> Layer:
    """Return the programs of the node's root that change packet filters."""
    extensions = sorted("/" + str(path.relative_to(root)) for path in root.glob("usr/lib/*/xtables/*.so"))
    names: dict[str, Entry] = {f"usr/sbin/{name}": Link("xtables-nft-multi") for name in IPTABLES_NAMES}
    return {**with_libraries(root, [*NETWORK_PROGRAMS, *extensions]), **names, "run": Folder()}


def busybox(root: Path) -> Image:
    """Return a small image with a shell, for tests."""
    program = "/usr/bin/busybox" if (root / "usr/bin/busybox").exists() else "/bin/busybox"
    applets = shell.run(["chroot", root, program, "--list"]).split()
    layer: dict[str, Entry] = {f"bin/{name}": Link("busybox") for name in applets}
    copied = with_libraries(root, [program])
    layer["bin/busybox"] = copied.pop(program.lstrip("/"))
    return Image(tags=(BUSYBOX_IMAGE,), layers=({**BASE, **layer, **copied},), command=("sh",))


def with_libraries(root: Path, programs: list[str]) -> dict[str, Entry]:
    """Return programs with the libraries that they load, by the paths from which they are loaded."""
    output = shell.run(["chroot", root, "sh", "-c", 'for p; do ldd "$p" || true; done', "sh", *programs])
    libraries = set(re.findall(r"(/\S+) \(0x", output))
    return {path.lstrip("/"): Copy(inside(root, path)) for path in sorted({*programs, *libraries})}


def inside(root: Path, path: str) -> Path:
    """Resolve a path as a process whose root is `root` would: absolute links start there again."""
    resolved = root
    pending = [part for part in path.split("/") if part]
    followed = 0
    while pending:
        candidate = resolved / pending.pop(0)
        if candidate.is_symlink() and followed < MAXIMUM_LINKS:
            followed += 1
            target = str(candidate.readlink())
            resolved = root if target.startswith("/") else resolved
            pending = [part for part in target.split("/") if part] + pending
        else:
            resolved = candidate
    return resolved
