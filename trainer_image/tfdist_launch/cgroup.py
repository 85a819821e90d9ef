"""OOM kills in this container, as its cgroup counts them.

Kubernetes reports `OOMKilled` only if process 1 was killed; here process 1 is the launcher, and the training process
is its child.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

_ROOT: Final = Path("/sys/fs/cgroup")
"""In a container its own cgroup: `memory.events` of cgroup v2, `memory/memory.oom_control` of v1."""
_MIB: Final = 1 << 20
_NO_LIMIT: Final = 1 << 60
"""A limit of cgroup v1 from this value on means no limit."""


@dataclass(frozen=True, slots=True)
class CgroupMemory:
    """The memory controller of a cgroup whose files are below `root`."""

    root: Path = _ROOT

    def oom_kills(self) -> int:
        """Return the number of processes that the OOM killer has killed; 0 if it is not known."""
        # Version 2 first; a node has one of the two.
        for name in ("memory.events", "memory/memory.oom_control"):
            for line in _read(self.root / name).splitlines():
                key, _, value = line.partition(" ")
                if key == "oom_kill" and value.strip().isdecimal():
                    return int(value)
        return 0

    def limit_text(self) -> str:
        """Return the limit as text, as ` (limit 512 MiB)`; "" if there is none, or it is not known."""
        for name in ("memory.max", "memory/memory.limit_in_bytes"):
            text = _read(self.root / name).strip()
            if text.isdecimal() and int(text) < _NO_LIMIT:
                return f" (limit {int(text) // _MIB} MiB)"
        return ""


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
