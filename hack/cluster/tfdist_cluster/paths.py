"""Paths: the sources of this tool, the state of this clone, and the cache of builds that all clones share.

The state holds running processes and their data. All build outputs are in the cache, under the hash of their inputs,
so that a second clone of the repository builds nothing again.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from tfdist_cluster import versions

PACKAGE = Path(__file__).resolve().parent
CLUSTER = PACKAGE.parent
REPOSITORY = CLUSTER.parents[1]
GO_MODULE = CLUSTER / "go"
MANIFESTS = PACKAGE / "manifests"


@dataclass(frozen=True, slots=True)
class State:
    """The folder of this clone, `TFDIST_STATE` or `.state` in the repository, and the cache of this user.

    The cache is `TFDIST_CACHE`, or `tfdist` in `XDG_CACHE_HOME` or `~/.cache`.
    """

    root: Path
    cache: Path

    @classmethod
    def from_environment(cls) -> "State":
        """Return the folders that the environment names, created if they are missing."""
        root = Path(os.environ.get("TFDIST_STATE") or REPOSITORY / ".state").resolve()
        caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        cache = Path(os.environ.get("TFDIST_CACHE") or caches / "tfdist").resolve()
        for folder in (root, cache):
            folder.mkdir(parents=True, exist_ok=True)
        return cls(root, cache)

    def cached(self, name: str) -> Path:
        """Return a folder of the cache, made if it is missing."""
        path = self.cache / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    def folder(self, name: str) -> Path:
        """Return a folder of the state, made if it is missing."""
        path = self.root / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    @property
    def bin(self) -> Path:
        """Links to executables of the cache: kube, kubectl, kind, ..."""
        return self.folder("bin")

    @property
    def build(self) -> Path:
        """Intermediate files of a build of the node image."""
        return self.folder("build")

    @property
    def logs(self) -> Path:
        """Output of long commands and of servers."""
        return self.folder("logs")

    @property
    def engine(self) -> Path:
        """Identity of a Docker engine that was started here, and its wrapper for runc."""
        return self.folder("engine")

    @property
    def docker_data(self) -> Path:
        """Data of a Docker engine that was started here."""
        return self.folder("docker")

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig of the kind cluster; it need not exist."""
        return self.folder("kind") / "kubeconfig"

    @property
    def shared(self) -> Path:
        """The folder that every node mounts; volumes are its subdirectories."""
        return self.folder("shared")

    @property
    def control_plane(self) -> Path:
        """The plain control plane: ports, certificates, data, pid files."""
        return self.folder("control-plane")


def cluster_name() -> str:
    """Return the name of the kind cluster."""
    return os.environ.get("TFDIST_CLUSTER_NAME") or versions.CLUSTER_NAME
