"""Executables from Go modules: those of `hack/cluster/go`, schedulers, and a few tools at fixed versions.

`go build` has its own cache; that of executables saves even the seconds that a lookup there takes, and lets an
executable be used if Go's cache has been emptied.
"""

import os
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tfdist_cluster import console, content, shell, source_edits, versions
from tfdist_cluster.errors import ClusterError
from tfdist_cluster.paths import GO_MODULE, State
from tfdist_cluster.source_edits import Edit

# No DWARF: a tenth less compile time, and -w would drop it from the executable anyway. Traces keep their lines.
BUILD_FLAGS = ("-trimpath", "-buildvcs=false", "-gcflags=all=-dwarf=false")


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


def program(state: State, wanted: Program) -> Path:
    """Build an executable of `hack/cluster/go` if it is not current, and return its path."""
    return _from_module(state, wanted, state.bin, GO_MODULE, versions.KUBERNETES)


def older(state: State, version: str, names: Sequence[str]) -> Path:
    """Build the servers of an older Kubernetes if they are not current; return their folder."""
    folder = state.folder(f"kubernetes-{version}")
    _from_module(
        state, Program("kube", "./cmd/kube", 300, tuple(names)), folder, GO_MODULE.with_name(f"go-{version}"), version
    )
    return folder


def _from_module(state: State, wanted: Program, folder: Path, module: Path, version: str) -> Path:
    """Have an executable of a module, and its further names, in a folder."""
    flags = _linker_flags(version)
    key = content.digest(content.files_digest([module]), BUILD_FLAGS, flags, wanted.package)
    return _linked(state, wanted, folder, key, partial(_build, wanted.package, module, flags))


def edited(state: State, wanted: Program, module: Path, required: str, edits: Sequence[Edit]) -> Path:
    """Build an executable of a module that another one requires, if it is not current, and return its path.

    Args:
        state: of this clone.
        wanted: the executable; its package is one of the required module.
        module: folder of the module that requires it; its `go.mod` and `go.sum` pin every version.
        required: path of the required module.
        edits: changes of its sources.
    """
    key = content.digest(content.files_digest([module]), BUILD_FLAGS, wanted.package, edits)
    return _linked(state, wanted, state.bin, key, partial(_build_edited, wanted.package, module, required, edits))


def tool(state: State, name: str) -> Path:
    """Build one of the extra tools if it is not current, and return its path."""
    package = versions.EXTRA_TOOLS[name]
    wanted = Program(name, package, 100)
    return _linked(state, wanted, state.bin, content.digest(package, BUILD_FLAGS), partial(_install, package))


def is_cached(state: State, wanted: Program) -> bool:
    """Return whether the cache has a version of an executable: building a newer one takes a part of the time."""
    return any(state.cached("programs").glob(f"{wanted.name}-*"))


def _linked(state: State, wanted: Program, folder: Path, key: str, make: Callable[[Path, Path], None]) -> Path:
    """Build an executable if the cache has none of this key, and link to it by all its names."""

    def compiled(output: Path) -> None:
        require_go()
        _compile(state, wanted, lambda log: make(log, output))

    cached = content.cached(state.cached("programs"), wanted.name, key, compiled)
    _link(folder / wanted.name, str(cached))
    for name in wanted.links:
        _link(folder / name, wanted.name)
    return folder / wanted.name


def _build(package: str, module: Path, linker_flags: str, log: Path, output: Path) -> None:
    flags = [*BUILD_FLAGS, "-ldflags", linker_flags]
    _go(["go", "build", "-v", *flags, "-o", str(output), package], log, module)


def _build_edited(package: str, module: Path, required: str, edits: Sequence[Edit], log: Path, output: Path) -> None:
    """Go does not build an edited module cache, so an edited module gets a copy, which replaces it."""
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
    """`go install` chooses the file's name, so it gets a folder."""
    folder = output.with_name(output.name + ".folder")
    content.remove(folder)
    folder.mkdir()
    flags = [*BUILD_FLAGS, "-ldflags", "-s -w"]
    _go(["go", "install", "-v", *flags, package], log, folder, {"GOBIN": str(folder), "GOFLAGS": "-mod=mod"})
    (built,) = folder.iterdir()
    built.rename(output)
    folder.rmdir()


def _go(command: list[str], log: Path, cwd: Path, extra: dict[str, str] | None = None) -> None:
    env = {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off", **(extra or {})}
    shell.run(shell.bound(command), cwd=cwd, log=log, env=env)


def _compile(state: State, wanted: Program, build: Callable[[Path], None]) -> None:
    log = state.logs / f"build-{wanted.name}.log"
    log.write_bytes(b"")

    def compiled() -> str:
        lines = log.read_bytes().count(b"\n")
        return f"{lines} packages compiled"

    with console.step(f"build {wanted.name}", expected_seconds=wanted.cold_seconds, detail=compiled):
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
    """Check that Go is there and new enough.

    Raises:
        ClusterError: it is not.
    """
    needed = ".".join(str(number) for number in versions.MINIMUM_GO)
    if shutil.which("go") is None:
        raise ClusterError(f"`go` is not installed; Go {needed} or newer is needed to build Kubernetes")
    printed = shell.run(["go", "env", "GOVERSION"], env={"GOTOOLCHAIN": "local"}).strip()
    found = re.match(r"go(\d+)\.(\d+)", printed)
    if found is None or (int(found[1]), int(found[2])) < versions.MINIMUM_GO:
        raise ClusterError(f"Go {needed} or newer is needed to build Kubernetes; `go` in PATH is {printed}")


def module_folder(module: str, requiring: Path = GO_MODULE) -> Path:
    """Return the folder of a module that the module in folder `requiring` requires, downloaded and verified."""
    require_go()
    printed = shell.run(
        ["go", "list", "-m", "-f", "{{.Dir}}", module], cwd=requiring, env={"GOFLAGS": "-mod=mod"}
    ).strip()
    if not printed:
        shell.run(["go", "mod", "download", module], cwd=requiring)
        printed = shell.run(["go", "list", "-m", "-f", "{{.Dir}}", module], cwd=requiring).strip()
    if not printed:
        raise ClusterError(f"the Go module {module} could not be downloaded; check `go env GOPROXY`")
    return Path(printed)


def require_architecture() -> None:
    """Check the machine's processor.

    Raises:
        ClusterError: the node image cannot be built for it.
    """
    machine = os.uname().machine
    if machine != "x86_64":
        raise ClusterError(f"the node image is built for x86_64 only; this machine is {machine}")
