"""Processes that outlive this one, and their identities.

A process is identified by its id and its start time, since the kernel reuses ids.
Invariant: no signal is ever sent to a process whose start time is not the recorded one.
"""

import contextlib
import os
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tfdist_cluster import content, shell
from tfdist_cluster.errors import ClusterError

START_TIME_FIELD = 19  # field 22 of proc(5) stat; fields 1 and 2 are cut off with the command's name


@dataclass(frozen=True, slots=True)
class Identity:
    """One process, for ever: a later process with the same id has another start time (or boot)."""

    pid: int
    started: str

    def alive(self) -> bool:
        """Return whether this very process still runs; a zombie does not."""
        return self.pid > 0 and start_time(self.pid) == self.started

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, unless the process is gone."""
        if self.alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


def boot_id() -> str:
    """Return an identifier of the current boot of the machine."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def start_time(pid: int) -> str | None:
    """Return boot and clock ticks at which a process started, or None if none runs under this id."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat.rpartition(")")[2].split()  # the name in parentheses may itself hold spaces and parentheses
    return None if fields[0] in "ZX" else f"{boot_id()}:{fields[START_TIME_FIELD]}"


def read(pid_file: Path) -> Identity | None:
    """Return the recorded process if it is still the same one."""
    try:
        pid, started = pid_file.read_text().split()
        identity = Identity(int(pid), started)
    except (FileNotFoundError, ValueError):
        return None
    return identity if identity.alive() else None


def record(pid_file: Path, pid: int) -> Identity:
    """Store the identity of a process that runs now.

    Raises:
        ClusterError: it has already ended.
    """
    started = start_time(pid)
    if started is None:
        raise ClusterError(f"process {pid} ended before it could be recorded in {pid_file}")
    content.write_atomically(pid_file, f"{pid} {started}\n")
    return Identity(pid, started)


def start(command: shell.Arguments, *, pid_file: Path, log: Path) -> Identity:
    """Start a server in a new session, so that it outlives this process, and record its identity."""
    with log.open("ab") as output:
        child = subprocess.Popen(
            [str(word) for word in command], stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            start_new_session=True, env=shell.environment(), cwd="/",
        )  # fmt: skip
    try:
        return record(pid_file, child.pid)
    except ClusterError as error:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-5:])
        raise ClusterError(f"{command[0]} ended at once; {log} ends with:\n{tail}") from error


def stop(pid_file: Path, *, grace_seconds: float = 15) -> bool:
    """Stop the recorded process with SIGTERM, then SIGKILL; return whether it ran."""
    identity = read(pid_file)
    if identity is not None:
        identity.signal(signal.SIGTERM)
        try:
            shell.wait_until(lambda: _has_exited(identity), timeout_seconds=grace_seconds, what="end")
        except ClusterError:
            identity.signal(signal.SIGKILL)
            shell.wait_until(lambda: _has_exited(identity), timeout_seconds=10, what=f"end of process {identity.pid}")
    pid_file.unlink(missing_ok=True)
    return identity is not None


def _has_exited(identity: Identity) -> bool:
    with contextlib.suppress(ChildProcessError):
        os.waitpid(identity.pid, os.WNOHANG)  # reaps it if it is a child of this process
    return not identity.alive()
