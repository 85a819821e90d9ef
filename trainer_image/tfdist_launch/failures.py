"""Failures of training processes and of launchers, in the form that `tfdist.failure_classification` classifies."""

import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tfdist.contract import ExitCode, LaunchMember, Role, replica_name
from tfdist.failure_classification import OOM_KILLED
from tfdist.failure_text import early_exit
from tfdist.termination import termination_summary
from tfdist_launch.messages import ExitResult

_REPLICA: Final = re.compile(r"/job:(\w+)/(?:replica:\d+/)?task:(\d{1,6})\b|\b(chief|worker|ps)-(\d{1,6})\b")


@dataclass(frozen=True, slots=True)
class ProcessFailure:
    """The failure of one member, a `TerminatedReplica`. The fields of the pod's state keep their defaults."""

    role: Role
    index: int
    exit_code: int | None
    """None if the process did not exit by itself."""
    signal: int | None = None
    message: str = ""
    """The termination message, or any text."""
    lost_at: str = ""
    """Orders the failures of one round: whole seconds since the first one."""
    note: str = ""
    """Appended to the message."""
    reason: str = ""
    conditions: tuple[str, ...] = ()
    disrupted: bool = False
    deleting: bool = False

    @property
    def name(self) -> str:
        """Name of the replica, as `worker-3`."""
        return replica_name(self.role, self.index)

    @property
    def lost_peers(self) -> frozenset[tuple[str, int]]:
        """Role and index of the other replicas that the message names, as TensorFlow's task or by host name."""
        peers = ((match[1] or match[3], int(match[2] or match[4])) for match in _REPLICA.finditer(self.message))
        return frozenset(peers) - {(str(self.role), self.index)}

    @property
    def launcher_exit_code(self) -> int:
        """Exit code of a launcher that ends because of it."""
        return int(ExitCode.SOFTWARE) if self.exit_code is None else self.exit_code

    @property
    def summary(self) -> str:
        """Message and note in one line, see `termination_summary`."""
        return "; ".join(filter(None, (termination_summary(self.message), self.note)))

    @property
    def description(self) -> str:
        """The summary; without a message, the exit code or the signal."""
        if self.summary:
            return self.summary
        if self.signal is not None:
            return f"{self.name} was ended by signal {self.signal}"
        return f"{self.name} ended with exit code {self.exit_code}"


def process_failure(
    member: LaunchMember, result: ExitResult, seconds: float, completed: Sequence[str] = ()
) -> ProcessFailure:
    """Return the failure of a training process.

    Args:
        member: the member whose process ended.
        result: how it ended.
        seconds: time since the first failure of its round.
        completed: names of the members that it needs and that have exited with 0 in this round.
    """
    # The OOM killer may have killed a child alone: then the process fails with its own error, which stays first.
    oom_killed = result.signal == signal.SIGKILL and bool(result.out_of_memory)
    message = result.out_of_memory if oom_killed else result.termination
    if result.out_of_memory and not oom_killed:
        summary = termination_summary(message) or f"exit code {result.exit_code}"
        message = f"{summary}; {result.out_of_memory}"
    return ProcessFailure(
        role=member.role,
        index=member.index,
        exit_code=result.exit_code,
        signal=result.signal,
        message=message,
        lost_at=f"{seconds:06.0f}",
        note=early_exit(completed),
        reason=OOM_KILLED if oom_killed else "",
    )


def unresponsive_process(member: LaunchMember) -> ProcessFailure:
    """Return the failure of a training process that exists and does not run."""
    text = (
        f"the training process of {_name(member)} sends no heartbeat, and its peers have lost their connections to it:"
        " is it stopped, or starved of processor time?"
    )
    return _failure(member, text)


def unreachable_launcher(member: LaunchMember, seconds: float) -> ProcessFailure:
    """Return the failure of a member whose launcher was unreachable for `seconds`."""
    return _failure(member, f"{_name(member)} was unreachable for {seconds:.0f} s: its node or the network failed")


def paused_leader(member: LaunchMember, seconds: float) -> ProcessFailure:
    """Return the failure of the leader, whose launcher itself was not scheduled for `seconds`."""
    text = f"the launcher of {_name(member)} did not run for {seconds:.0f} s: it was stopped, or its node was paused"
    return _failure(member, text)


def partitioned_peers(first: ProcessFailure, second: ProcessFailure, leader: LaunchMember) -> ProcessFailure:
    """Return the failure of the connection between two members that have reported the loss of each other.

    Both launchers are connected to `leader`. If that is one of the two, the network between them works again.
    """
    text = f"{first.name} and {second.name} lost the connection to each other"
    if _name(leader) in {first.name, second.name}:
        text += (
            ", and their launchers are connected: the network between them failed for a time, or one of their "
            "processes had too little processor time"
        )
    else:
        text += ", and both are connected to the leader: the network between them failed"
    return ProcessFailure(role=first.role, index=first.index, exit_code=None, message=text)


def _failure(member: LaunchMember, text: str) -> ProcessFailure:
    return ProcessFailure(role=member.role, index=member.index, exit_code=None, message=text)


def _name(member: LaunchMember) -> str:
    return replica_name(member.role, member.index)
