"""Nodes and connections of the simulated network of launchers."""

from collections.abc import Callable
from dataclasses import dataclass, field

from tfdist_launch.leader import Leader
from tfdist_launch.member import MemberStateMachine


@dataclass(eq=False)
class Node:
    """One launcher, alive until it is killed or leaves."""

    rank: int
    machine: MemberStateMachine
    leader: Leader | None
    link: int | None = None
    """Its connection to the leader."""
    program: int | None = None
    """The round whose program runs."""
    standby: int | None = None
    """The round that its standby process is ready for."""
    exit_code: int | None = None
    dead: bool = False
    isolated: bool = False
    """Whether its node no longer answers."""
    frozen: bool = False
    """Whether its node stands still: nothing on it runs, and what it is sent waits."""
    inbox: list[Callable[[], None]] = field(default_factory=list)
    """What has happened to it meanwhile."""
    missed_by: list["Node"] = field(default_factory=list)
    """Whom it was connected to when its node stopped to answer."""

    @property
    def is_forgotten(self) -> bool:
        """Whether no launcher is left that could know that its training process may still run.

        When all launchers are new, none can distinguish a gang's first start from a start after a node was lost. Then
        the fence of its checkpoints alone protects what it has done, as with a gang of one.
        """
        return self.isolated and all(node.dead or node.isolated for node in self.missed_by)


@dataclass(eq=False)
class Connection:
    """Between a member and a leader. Messages arrive in order, or never after it was cut."""

    member: Node
    leader: Node
    cut: bool = False
    closed: bool = False
    clear_at: list[float] = field(default_factory=lambda: [0.0, 0.0])
