"""Launchers over a simulated network: messages are late or lost, links silent or cut, anybody dies at any time."""

import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tfdist.contract import LaunchMember, LeaderSettings, Restarts, Role
from tfdist_launch.gang import Close, Effect, Send
from tfdist_launch.history import History
from tfdist_launch.leader import Leader
from tfdist_launch.limits import Limits
from tfdist_launch.member import LEASE_SECONDS, Action, Greet, Leave, MemberMachine, Spawn, State, Tell, Terminate
from tfdist_launch.messages import Hello, Message, Outcome

JOB = "uid-1"


@dataclass(eq=False)
class Node:
    """One launcher, alive until it is killed or leaves."""

    seat: int
    machine: MemberMachine
    leader: Leader | None
    link: int | None = None
    """Its connection to the leader."""
    program: int | None = None
    """The round whose program runs."""
    reserve: int | None = None
    """The round for which a program waits."""
    exit_code: int | None = None
    dead: bool = False
    isolated: bool = False
    """Whether its node answers nobody any more."""
    missed_by: list["Node"] = field(default_factory=list)
    """Whom it was connected to when its node stopped to answer."""

    @property
    def is_forgotten(self) -> bool:
        """Whether nobody is left who could know that its program may still run.

        When all launchers are others than before, none can tell a gang's first start from one beside a lost node. Then
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


class World:
    """Launchers, connections and time. `random` draws delays."""

    def __init__(self, size: int, random: Any, backoff_limit: int = 1000) -> None:
        self.now = 0.0
        self.random = random
        self.size = size
        self.nodes: list[Node] = []
        self.connections: dict[int, Connection] = {}
        self.violations: list[str] = []
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._links = itertools.count(1)
        self.settings = LeaderSettings(
            members=[LaunchMember(role=Role.WORKER, index=i) for i in range(size)],
            backoff_limit=backoff_limit,
            first_delay_seconds=0.1,
            used=Restarts(),
        )
        for seat in range(size):
            self.later(random.random() * 5, partial(self.boot, seat))

    # Time

    def later(self, delay: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._queue, (self.now + delay, next(self._order), action))

    def run(self, seconds: float) -> None:
        until = self.now + seconds
        while self._queue and self._queue[0][0] <= until:
            self.now, _, action = heapq.heappop(self._queue)
            action()
            self.check()
        self.now = until

    def check(self) -> None:
        rounds = {n.program for n in self.nodes if n.program is not None and not n.is_forgotten}
        if len(rounds) > 1:
            self.violations.append(f"{self.now}: programs of rounds {sorted(rounds)} run together")

    # Launchers

    def boot(self, seat: int, *, beside: bool = False) -> None:
        """Start the launcher of a seat, in place of an old one or, on another node, beside it."""
        if not beside:
            self.kill(seat)
        leader = None
        if seat == 0:
            limits = Limits.of(self.settings, JOB)
            leader = Leader(self.settings, limits, History("x", lambda: "t"), alone=frozenset(), standby=True)
        born = self.now + len(self.nodes) * 1e-6  # no two launchers are born in one moment
        node = Node(seat, MemberMachine(JOB, seat, 0, born), leader)
        self.nodes.append(node)
        if leader is not None:
            self.tick(node)
        self.act(node, node.machine.begin())

    def at(self, seat: int) -> Node | None:
        """Return the launcher that is found under the seat's name: the newest."""
        return next((n for n in reversed(self.nodes) if n.seat == seat and not n.dead), None)

    def kill(self, seat: int) -> None:
        """Kill a launcher, and with it its program: connections of it are closed at once."""
        node = self.at(seat)
        if node is not None:
            self.bury(node)

    def bury(self, node: Node) -> None:
        node.dead, node.program = True, None
        for link, connection in list(self.connections.items()):
            if node in (connection.member, connection.leader):
                self.close(link)

    def tick(self, node: Node) -> None:
        if node.dead or node.leader is None:
            return
        self.carry_out(node.leader.tick(self.now))
        self.later(0.2, lambda: self.tick(node))

    def act(self, node: Node, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Greet(hello):
                    self.later(self.delay(), partial(self.greet, node, hello))
                case Tell(message):
                    self.send(node.link, message, to_leader=True)
                case Spawn(number, standby, other_port):
                    assert other_port == (number % 2 == 1), "the next program could not be made ready beside it"
                    assert node.program is None, "a program of an earlier round still runs"
                    assert not standby or node.reserve == number, "there is none in reserve"
                    node.program, node.reserve = number, None
                    self.later(self.random.random() * 10, partial(self.prepare, node, number))
                case Terminate(grace):
                    wait = self.random.random() * (3.0 if grace is None else grace)
                    self.later(wait, partial(self.end, node, node.program, 143))
                case Leave(code):
                    node.exit_code = code
                    assert node.program is None, "it leaves a program behind"
                    # What was sent before is flushed, and a leader stays until it has been heard.
                    self.later(3.0 if node.seat == 0 else 0.0, lambda: self.bury(node))

    def prepare(self, node: Node, number: int) -> None:
        """Make the program of the round after `number` ready, while that one runs."""
        if not node.dead and node.program == number:
            node.reserve = number + 1

    def end(self, node: Node, number: int | None, code: int) -> None:
        """The program of a round ends."""
        if number is None or node.dead or node.program != number:
            return
        node.program = None
        self.act(node, node.machine.ended(number, Outcome(exit_code=code), standby=node.reserve))

    def crash(self, seat: int, code: int) -> None:
        node = self.at(seat)
        if node is not None:
            self.end(node, node.program, code)

    # Network

    def delay(self) -> float:
        return float(self.random.random()) ** 3 * 2.0

    def greet(self, node: Node, hello: Hello) -> None:
        leader = self.at(0)
        if node.dead or node.machine.state is State.OVER:
            return
        unreachable = leader is not node and (node.isolated or leader is None or leader.isolated)
        if leader is None or unreachable or (leader.machine.state is State.OVER and leader is not node):
            self.later(0.3, lambda: self.greet(node, hello))
            return
        link = node.link = next(self._links)
        self.connections[link] = Connection(node, leader)
        self.act(node, node.machine.linked())
        self.send(link, hello, to_leader=True)

    def send(self, link: int | None, message: Message, *, to_leader: bool) -> None:
        connection = self.connections.get(link or 0)
        if link is None or connection is None or connection.closed:
            return
        # In order: never before what was sent before.
        at = max(self.now + self.delay(), connection.clear_at[to_leader])
        connection.clear_at[to_leader] = at
        self.later(at - self.now, lambda: self.arrive(link, message, to_leader=to_leader))

    def arrive(self, link: int, message: Message, *, to_leader: bool) -> None:
        connection = self.connections[link]
        end = connection.leader if to_leader else connection.member
        if connection.cut or end.dead or (connection.closed and to_leader and isinstance(message, Hello)):
            return
        if not to_leader:
            if end.link == link:
                self.act(end, end.machine.heard(message))
        elif end.leader is not None and isinstance(message, Hello):
            self.carry_out(end.leader.joined(link, message, self.now))
        elif end.leader is not None:
            self.carry_out(end.leader.told(link, message, self.now))

    def close(self, link: int) -> None:
        """Both ends learn it, unless the network is cut between them."""
        connection = self.connections[link]
        if connection.closed:
            return
        connection.closed = True
        if not connection.cut:
            for end in (connection.member, connection.leader):
                at = max([self.now + self.delay(), *connection.clear_at])
                self.later(at - self.now, partial(self.lost, link, end, silent=False))
        else:
            self.silence(link)

    def cut(self, seat: int) -> None:
        """The network between a member and its leader loses everything from now on; both wait for their lease."""
        node = self.at(seat)
        if node is None or node.link is None or seat == 0:
            return
        connection = self.connections[node.link]
        if not connection.closed and not connection.cut:
            connection.cut = True
            self.silence(node.link)

    def split(self, seat: int) -> None:
        """The node of a launcher answers nobody any more, works on, and has a successor."""
        node = self.at(seat)
        if node is None:
            return
        node.isolated = True
        for link, connection in self.connections.items():
            remote = connection.member is not connection.leader
            if remote and node in (connection.member, connection.leader) and not (connection.closed or connection.cut):
                connection.cut = True
                node.missed_by += [end for end in (connection.member, connection.leader) if end is not node]
                self.silence(link)
        # Its successor takes longer than a program that is stopped: a pod is not made within a second.
        self.later(1.0, partial(self.succeed, node))

    def succeed(self, lost: Node) -> None:
        """Start a launcher beside one that answers nobody, unless it has a successor."""
        if self.at(lost.seat) is lost:
            self.boot(lost.seat, beside=True)

    def silence(self, link: int) -> None:
        connection = self.connections[link]
        for end in (connection.member, connection.leader):
            # Each has heard the other last at some time before the cut: the two directions may fail one by one.
            self.later(LEASE_SECONDS * self.random.random(), partial(self.lost, link, end, silent=True))

    def lost(self, link: int, end: Node, *, silent: bool) -> None:
        connection = self.connections[link]
        if end.dead:
            return
        if end is connection.member and end.link == link:
            end.link = None
            self.act(end, end.machine.unlinked(silent=silent))
        if end is connection.leader and end.leader is not None:
            self.carry_out(end.leader.left(link, self.now, silent=silent))

    def carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(link, message):
                    self.send(link, message, to_leader=False)
                case Close(link):
                    self.close(link)

    # Questions

    @property
    def running(self) -> list[int | None]:
        found = [self.at(seat) for seat in range(self.size)]
        return [node.program if node and not node.is_forgotten else None for node in found]
