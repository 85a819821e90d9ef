"""The base image if no registry can be reached: Debian's smallest system with Python, by debootstrap.

The name carries a hash of this recipe, so a changed recipe makes a new base, and an archive under its final name
is complete. It holds what `python:3.11-slim-bookworm` is used for here: Python 3.11, venv, CA certificates.
"""

import hashlib
import os
from pathlib import Path
from typing import Final

from tfdist_cluster import console, shell
from tfdist_cluster.content import remove
from tfdist_cluster.errors import ClusterError
from tfdist_images import programs, store

SUITE: Final = "bookworm"
PACKAGES: Final = ("python3", "python3-venv", "ca-certificates")
EXCLUDED: Final = (
    "./dev/*",  # runtimes make their own
    "./etc/hostname",
    "./etc/machine-id",
    "./etc/resolv.conf",
    "./usr/share/info/*",
    "./usr/share/locale/*",
    "./usr/share/man/*",
    "./var/cache/apt/*.bin",
    "./var/cache/apt/archives/*.deb",
    "./var/cache/debconf/*-old",
    "./var/lib/apt/lists/*",
    "./var/log/*.log",
)
PATH_VARIABLE: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
RECIPE: Final = hashlib.sha256(repr((SUITE, PACKAGES, EXCLUDED, PATH_VARIABLE)).encode()).hexdigest()[:12]
IMAGE: Final = f"localhost/tfdist-base:{RECIPE}"
DOCKERFILE: Final = f'FROM scratch\nADD {RECIPE}.tar /\nENV PATH={PATH_VARIABLE}\nCMD ["python3"]\n'


def archive() -> Path:
    """Return the base's root file system as a tar archive, made if it is not there."""
    path = store.folder("base") / f"{RECIPE}.tar"
    if path.exists():
        return path
    programs.need({"debootstrap": "debootstrap"})
    if os.geteuid() != 0:
        raise ClusterError("debootstrap needs root. Run as root, or set BASE_IMAGE to an image that can be pulled.")
    with (
        console.step("base image: Debian with Python, by debootstrap", expected_seconds=50),
        store.complete_or_absent(path) as partial,
    ):
        root = path.with_name(f".root-{RECIPE}")
        _remove_root(root)
        try:
            _bootstrap(root)
            excluded = [f"--exclude={pattern}" for pattern in EXCLUDED]
            shell.run(
                ["tar", "-C", root, "--numeric-owner", "--wildcards", *excluded, "-cf", partial, "."],
                log=store.log("base-tar"),
            )
        finally:
            _remove_root(root)
    return path


def _remove_root(root: Path) -> None:
    """Remove a root file system, after unmounting what a killed debootstrap left mounted in it."""
    for line in reversed(Path("/proc/self/mounts").read_text().splitlines()):
        if line.split()[1].startswith(f"{root}/"):
            shell.run(["umount", line.split()[1]])
    remove(root)


def _bootstrap(root: Path) -> None:
    """Run debootstrap into the folder `root`, from the mirror that `DEBIAN_MIRROR` names or its own default."""
    mirror = os.environ.get("DEBIAN_MIRROR")
    command = ["debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", SUITE, str(root)]
    shell.run([*command, mirror] if mirror else command, log=store.log("base-debootstrap"))
