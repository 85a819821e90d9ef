"""Executables from Go modules: the components in `hack/cluster/go`, schedulers, and a few tools at fixed versions.

`go build` has a cache, too; the cache of executables also saves the seconds of a lookup there, and keeps executables
after Go's cache is emptied.
"""

import os
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from tfdist_cluster import console, content, shell, source_edits, versions
from tfdist_cluster.errors import ClusterError
from tfdist_cluster.paths import GO_MODULE, State
from tfdist_cluster.source_edits import Edit

# No DWARF: a tenth less compile time, and -w would drop it from the executable anyway. Traces keep their lines.
BUILD_FLAGS = ("-trimpath", "-buildvcs=false", "-gcflags=all=-dwarf=false")

_GOGC: Final = "400"
"""Percentage by which the compiler's heap may grow between two collections: a sixth less CPU than with Go's default."""


@dataclass(frozen=True, slots=True)
class Program:
    """An executable of `hack/cluster/go`."""

    name: str
    package: str
    cold_seconds: int  # on two cores with an empty cache
    links: tuple[str, ...] = ()  # further names, for an executable that chooses by its name


COMPONENTS = (
    "coredns", "etcd", "kube-apiserver", "kube-controller-manager", "kube-proxy", "kube-scheduler", "kubeadm",
    "kubectl", "kubelet", "network-policy", "nodenet", "storage-provisioner",
)  # fmt: skip

KUBE = Program("kube", "./cmd/kube", 420, COMPONENTS)
KIND = Program("kind", "./cmd/kind", 15)
PAUSE = Program("pause", "./cmd/pause", 2)
# Tools of the same module: they compile only the 250 packages that Kubernetes does not have.
KWOK = Program("kwok", "sigs.k8s.io/kwok/cmd/kwok", 30)
HELM = Program("helm", "helm.sh/helm/v3/cmd/helm", 45)


def program(state: State, executable: Program) -> Path:
    """Build an executable of `hack/cluster/go` if it is not current, and return its path."""
    return _from_module(state, executable, state.bin, GO_MODULE, versions.KUBERNETES)


def older(state: State, version: str, names: Sequence[str]) -> Path:
    """Build the servers of an older Kubernetes if they are not current; return their folder."""
    folder = state.folder(f"kubernetes-{version}")
    _from_module(
        state, Program("kube", "./cmd/kube", 300, tuple(names)), folder, GO_MODULE.with_name(f"go-{version}"), version
    )
    return folder


def _from_module(state: State, executable: Program, folder: Path, module: Path, version: str) -> Path:
    """Build an executable of a module if it is not current, and link to it in a folder by all its names."""
    flags = _linker_flags(version)
    key = content.digest(content.files_digest([module]), BUILD_FLAGS, flags, executable.package)
    return _build_and_link(state, executable, folder, key, partial(_build, executable.package, module, flags))


def edited(state: State, executable: Program, module: Path, required: str, edits: Sequence[Edit]) -> Path:
    """Build an executable of a module that another one requires, if it is not current, and return its path.

    Args:
        state: of this clone.
        executable: the executable; its package is one of the required module.
        module: folder of the module that requires it; its `go.mod` and `go.sum` pin every version.
        required: path of the required module.
        edits: changes of its sources.
    """
    key = content.digest(content.files_digest([module]), BUILD_FLAGS, executable.package, edits)
    return _build_and_link(
        state, executable, state.bin, key, partial(_build_edited, executable.package, module, required, edits)
    )


def tool(state: State, name: str) -> Path:
    """Build one of the extra tools if it is not current, and return its path."""
    package = versions.EXTRA_TOOLS[name]
    executable = Program(name, package, 100)
    return _build_and_link(
        state, executable, state.bin, content.digest(package, BUILD_FLAGS), partial(_install, package)
    )


def is_cached(state: State, executable: Program) -> bool:
    """Return whether the cache has any version of an executable: building another then takes less time."""
    return any(state.cached("programs").glob(f"{executable.name}-*"))


def _build_and_link(
    state: State, executable: Program, folder: Path, key: str, make: Callable[[Path, Path], None]
) -> Path:
    """Build an executable if the cache has none of this key, and link to it by all its names."""

    def make_output(output: Path) -> None:
        require_go()
        _compile(state, executable, lambda log: make(log, output))

    path = content.cached(state.cached("programs"), executable.name, key, make_output)
    _link(folder / executable.name, str(path))
    for name in executable.links:
        _link(folder / name, executable.name)
    return folder / executable.name


def _build(package: str, module: Path, linker_flags: str, log: Path, output: Path) -> None:
    flags = [*BUILD_FLAGS, "-ldflags", linker_flags]
    _go(["go", "build", "-v", *flags, "-o", str(output), package], log, module)


def _build_edited(package: str, module: Path, required: str, edits: Sequence[Edit], log: Path, output: Path) -> None:
    """Build with an edited copy of the required module, since Go rejects edits in its module cache."""
    if not edits:
        _build(package, module, "-s -w", log, output)
        return
    folder = output.with_name(output.name + ".folder")
    content.remove(folder)
    shutil.copytree(module, folder)
    source_edits.copy(module_folder(required, module), folder / "source", edits)
    _go(["go", "mod", "edit", f"-replace={required}=./source"], log, folder)
    _build(package, folder, "-s -w", log, output)
    content.remove(folder)


def _install(package: str, log: Path, output: Path) -> None:
    """Run `go install` with a temporary folder, since it chooses the file's name itself."""
    folder = output.with_name(output.name + ".folder")
    content.remove(folder)
    folder.mkdir()
    flags = [*BUILD_FLAGS, "-ldflags", "-s -w"]
    _go(["go", "install", "-v", *flags, package], log, folder, {"GOBIN": str(folder), "GOFLAGS": "-mod=mod"})
    (executable,) = folder.iterdir()
    executable.rename(output)
    folder.rmdir()


def _go(command: list[str], log: Path, cwd: Path, extra: dict[str, str] | None = None) -> None:
    env = {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off", "GOGC": _GOGC, **(extra or {})}
    shell.run(shell.bound(command), cwd=cwd, log=log, env=env)


def _compile(state: State, executable: Program, build: Callable[[Path], None]) -> None:
    log = state.logs / f"build-{executable.name}.log"
    log.write_bytes(b"")

    def progress() -> str:
        lines = log.read_bytes().count(b"\n")
        return f"{lines} packages compiled"

    with console.step(f"build {executable.name}", expected_seconds=executable.cold_seconds, detail=progress):
        build(log)


def _linker_flags(version: str) -> str:
    """Return flags that strip, and stamp the version that kubeadm and the API server report."""
    major, minor, _ = version.removeprefix("v").split(".")
    base = "k8s.io/component-base/version"
    stamps = {
        f"{base}.gitVersion": version,
        f"{base}.gitMajor": major,
        f"{base}.gitMinor": minor,
        f"{base}.gitTreeState": "clean",
        "k8s.io/client-go/pkg/version.gitVersion": version,
    }
    return " ".join(["-s", "-w", *(f"-X {name}={value}" for name, value in stamps.items())])


def _link(path: Path, target: str) -> None:
    if not path.is_symlink() or path.readlink() != Path(target):
        temporary = path.with_name(f".{path.name}.partial")
        content.remove(temporary)
        temporary.symlink_to(target)
        temporary.rename(path)


def require_go() -> None:
    """Check that Go is installed and recent enough.

    Raises:
        ClusterError: Go is missing or too old.
    """
    minimum = ".".join(str(number) for number in versions.MINIMUM_GO)
    if shutil.which("go") is None:
        raise ClusterError(f"`go` is not installed; Go {minimum} or newer is needed to build Kubernetes")
    output = shell.run(["go", "env", "GOVERSION"], env={"GOTOOLCHAIN": "local"}).strip()
    match = re.match(r"go(\d+)\.(\d+)", output)
    if match is None or (int(match[1]), int(match[2])) < versions.MINIMUM_GO:
        raise ClusterError(f"Go {minimum} or newer is needed to build Kubernetes; `go` in PATH is {output}")


def module_folder(module: str, requiring: Path = GO_MODULE) -> Path:
    """Return the folder of a module that the module in folder `requiring` requires, downloaded and verified."""
    require_go()
    folder = shell.run(
        ["go", "list", "-m", "-f", "{{.Dir}}", module], cwd=requiring, env={"GOFLAGS": "-mod=mod"}
    ).strip()
    if not folder:
        shell.run(["go", "mod", "download", module], cwd=requiring)
        folder = shell.run(["go", "list", "-m", "-f", "{{.Dir}}", module], cwd=requiring).strip()
    if not folder:
        raise ClusterError(f"the Go module {module} could not be downloaded; check `go env GOPROXY`")
    return Path(folder)


def require_architecture() -> None:
    """Check the machine's processor.

    Raises:
        ClusterError: the node image cannot be built for it.
    """
    machine = os.uname().machine
    if machine != "x86_64":
        raise ClusterError(f"the node image is built for x86_64 only; this machine is {machine}")
