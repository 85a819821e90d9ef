"""Time, nodes and connections of the simulated network of launchers."""

import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

from tfdist_launch.leader import Leader
from tfdist_launch.member import MemberStateMachine


class Timeline:
    """Simulated time: actions happen in its order."""

    def __init__(self) -> None:
        self.now = 0.0
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()

    def later(self, delay: float, action: Callable[[], None]) -> None:
        self.at_time(self.now + delay, action)

    def at_time(self, time: float, action: Callable[[], None]) -> None:
        """Schedule an action for a time; of two at the same time the one that was scheduled first comes first."""
        heapq.heappush(self._queue, (time, next(self._order), action))

    def run(self, seconds: float) -> None:
        until = self.now + seconds
        while self._queue and self._queue[0][0] <= until:
            self.now, _, action = heapq.heappop(self._queue)
            action()
            self.check()
        self.now = until

    def check(self) -> None:
        """Check what must hold after every action."""


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
