"""Executables by name, for tests, demos and people."""

from pathlib import Path

from tfdist_cluster import gobuild, lock, schedulers, versions
from tfdist_cluster.errors import ClusterError
from tfdist_cluster.paths import State

_OF_THE_MODULE = {each.name: each for each in (gobuild.KIND, gobuild.PAUSE, gobuild.KWOK, gobuild.HELM)}


def names() -> list[str]:
    """Return the names that `ensure` knows."""
    return sorted({*_OF_THE_MODULE, "kube", *gobuild.COMPONENTS, *schedulers.PROGRAMS, *versions.EXTRA_TOOLS})


def ensure(state: State, name: str) -> Path:
    """Build a program if it is not current, and return its path.

    Raises:
        ClusterError: there is no such program.
    """
    with lock.exclusive(state.root / f"tool-{_unit(name)}.lock"):
        if name in versions.EXTRA_TOOLS:
            return gobuild.tool(state, name)
        if name in schedulers.PROGRAMS:
            return schedulers.ensure(state, name)
        gobuild.program(state, _OF_THE_MODULE.get(name, gobuild.KUBE))
        return state.bin / name


def _unit(name: str) -> str:
    """Return the executable that is built for a name: several names may share one."""
    if name not in names():
        raise ClusterError(f"no tool is named {name!r}; there are {', '.join(names())}")
    return "kube" if name in gobuild.COMPONENTS else name
