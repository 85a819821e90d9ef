"""The Debian root file system of a node, made with debootstrap once for each list of packages.

debootstrap mounts file systems inside the folder that it fills. It runs in a mount namespace of its own that ends
with it, so a folder left by a killed build never has anything mounted and can be removed safely.
"""

import re
import shutil
from pathlib import Path

from tfdist_cluster import console, content, engine, shell, versions
from tfdist_cluster.errors import ClusterError
from tfdist_cluster.paths import State

UNNEEDED = (
    "usr/share/doc",
    "usr/share/locale",
    "usr/share/man",
    "usr/share/info",
    "var/lib/apt/lists",
    "var/cache/apt",
)


def ensure(state: State) -> Path:
    """Make the root file system if it is not current, and return its folder."""

    def installed(folder: Path) -> None:
        _require_debootstrap()
        with console.step("install Debian packages for the nodes (debootstrap)", expected_seconds=60):
            _bootstrap(folder, state.logs / "debootstrap.log")

    return content.cached(state.cached("roots"), "debian", key(), installed, kept=1)


def key() -> str:
    """Return the hash of what decides the root's content."""
    return content.digest(versions.DEBIAN_SUITE, versions.NODE_PACKAGES, UNNEEDED)


def _bootstrap(folder: Path, log: Path) -> None:
    packages = ",".join(versions.NODE_PACKAGES)
    options = ["--variant=minbase", f"--include={packages}"]
    shell.run(private(["debootstrap", *options, versions.DEBIAN_SUITE, folder, *mirror()]), log=log)
    for path in UNNEEDED:
        content.remove(folder / path)
        (folder / path).mkdir()


def private(command: shell.Arguments) -> list[object]:
    """Return a command in its own mount and process namespaces: killing this process ends and unmounts all of it."""
    return shell.bound(["unshare", "--mount", "--pid", "--fork", "--kill-child=KILL", "--mount-proc", *command])


def mirror() -> list[str]:
    """Return the mirror that this machine's apt uses for the suite, or nothing: debootstrap's own default."""
    try:
        printed = shell.run(["apt-get", "indextargets", "--format", "$(CODENAME) $(SITE)", "Created-By: Packages"])
    except ClusterError:
        return []
    sites = re.findall(rf"^{versions.DEBIAN_SUITE} (\S+)$", printed, re.MULTILINE)
    return sites[:1]


def _require_debootstrap() -> None:
    path = shell.environment()["PATH"]
    if shutil.which("debootstrap", path=path) is not None:
        return
    if shutil.which("apt-get") is None:
        raise ClusterError("`debootstrap`, which builds the node image, is not installed; install it and try again")
    engine.apt_install("debootstrap")
