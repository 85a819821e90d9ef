"""Launchers over a simulated network: messages are late or lost, connections are cut, any launcher may be killed."""

import itertools
from functools import partial
from typing import Any

from support.simulated_nodes import Connection, Node, Timeline
from tfdist.contract import ExitCode, LaunchMemberRange, LeaderSettings, Restarts, Role
from tfdist_launch.failure_history import FailureHistory
from tfdist_launch.leader import Leader
from tfdist_launch.member import (
    LEASE_SECONDS,
    Action,
    ConnectToLeader,
    Exit,
    MemberState,
    MemberStateMachine,
    SendToLeader,
    StartProcess,
    StopProcess,
)
from tfdist_launch.messages import ExitResult, Heartbeat, Hello, Message
from tfdist_launch.restart_policy import RestartPolicy
from tfdist_launch.slots import Close, Effect, Send

JOB = "uid-1"
SAVING_SECONDS = 25.0
"""How long replicas may save after one was preempted."""


class World(Timeline):
    """Launchers, connections and time. `random` draws delays."""

    def __init__(self, size: int, random: Any, backoff_limit: int = 1000) -> None:
        super().__init__()
        self.random = random
        self.size = size
        self.nodes: list[Node] = []
        self.connections: dict[int, Connection] = {}
        self.violations: list[str] = []
        self._links = itertools.count(1)
        self.settings = LeaderSettings(
            member_ranges=[LaunchMemberRange(role=Role.WORKER, index=0, count=size)],
            backoff_limit=backoff_limit,
            first_delay_seconds=0.1,
            prior_restarts=Restarts(),
        )
        for rank in range(size):
            self.later(random.random() * 5, partial(self.boot, rank))

    def check(self) -> None:
        """Record a violation if the programs of two rounds run."""
        rounds = {n.program for n in self.nodes if n.program is not None and not (n.is_forgotten or n.frozen)}
        if len(rounds) > 1:
            self.violations.append(f"{self.now}: programs of rounds {sorted(rounds)} run together")

    # Launchers

    def boot(self, rank: int, *, parallel: bool = False) -> None:
        """Start the launcher of a rank, which replaces the old one or, on another node, runs in parallel to it."""
        if not parallel:
            self.kill(rank)
        leader = None
        if rank == 0:
            limits, history = RestartPolicy.of(self.settings, JOB), FailureHistory("x", lambda: "t")
            leader = Leader(
                self.settings, limits, history, independent=frozenset(), standby=True, saving_seconds=SAVING_SECONDS
            )
        born = self.now + len(self.nodes) * 1e-6  # no two launchers are born in one moment
        node = Node(rank, MemberStateMachine(JOB, rank, 0, born), leader)
        self.nodes.append(node)
        if leader is not None:
            self.tick(node)
        self.act(node, node.machine.start())

    def at(self, rank: int) -> Node | None:
        """Return the newest launcher of a rank, to which its host name resolves."""
        return next((n for n in reversed(self.nodes) if n.rank == rank and not n.dead), None)

    def kill(self, rank: int) -> None:
        """Kill a launcher and its process; its connections are closed at once."""
        node = self.at(rank)
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
        if not node.frozen:
            self.beat(node, node.leader)
            self.carry_out(node.leader.tick(self.now))
        self.later(0.2, lambda: self.tick(node))

    def beat(self, node: Node, leader: Leader) -> None:
        """Deliver a heartbeat of every reachable member; as events of their own they would be too many."""
        for link, connection in list(self.connections.items()):
            member = connection.member
            if connection.leader is node and not (connection.cut or connection.closed or member.dead or member.frozen):
                self.carry_out(leader.handle_message(link, Heartbeat(alive=member.program is not None), self.now))

    def act(self, node: Node, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case ConnectToLeader(hello):
                    self.later(self.delay(), partial(self.greet, node, hello))
                case SendToLeader(message):
                    self.send(node.link, message, to_leader=True)
                case StartProcess(number, standby, other_port):
                    assert other_port == (number % 2 == 1), "the standby process would use the same port"
                    assert node.program is None, "a process of an earlier round still runs"
                    assert not standby or node.standby == number, "there is no standby process"
                    node.program, node.standby = number, None
                    self.later(self.random.random() * 10, partial(self.prepare, node, number))
                case StopProcess(grace):
                    wait = self.random.random() * (3.0 if grace is None else grace)
                    self.later(wait, partial(self.end, node, node.program, 143))
                case Exit(code):
                    node.exit_code = code
                    assert node.program is None, "it leaves a program behind"
                    # What was sent before is flushed, and a leader stays until it has been heard.
                    self.later(3.0 if node.rank == 0 else 0.0, lambda: self.bury(node))
                    if code == ExitCode.DEVICE_MISSING:
                        self.later(4.0, partial(self.succeed, node))

    def prepare(self, node: Node, number: int) -> None:
        """Make the standby process of the round after `number` ready, while that one runs."""
        if not node.dead and node.program == number:
            node.standby = number + 1

    def end(self, node: Node, number: int | None, code: int) -> None:
        """Have the process of a round exit."""
        if number is None or node.dead or node.program != number:
            return
        if node.frozen:
            node.inbox.append(partial(self.end, node, number, code))
            return
        node.program = None
        self.act(node, node.machine.process_exited(number, ExitResult(exit_code=code), standby=node.standby))

    def crash(self, rank: int, code: int) -> None:
        node = self.at(rank)
        if node is not None:
            self.end(node, node.program, code)

    # Network

    def delay(self) -> float:
        return float(self.random.random()) ** 3 * 2.0

    def greet(self, node: Node, hello: Hello) -> None:
        leader = self.at(0)
        if node.frozen:
            node.inbox.append(partial(self.greet, node, hello))
            return
        if node.dead or node.machine.state is MemberState.OVER:
            return
        unreachable = leader is not node and (node.isolated or leader is None or leader.isolated)
        if leader is None or unreachable or (leader.machine.state is MemberState.OVER and leader is not node):
            self.later(0.3, lambda: self.greet(node, hello))
            return
        link = node.link = next(self._links)
        self.connections[link] = Connection(node, leader)
        self.act(node, node.machine.connection_established())
        self.send(link, hello, to_leader=True)

    def send(self, link: int | None, message: Message, *, to_leader: bool) -> None:
        connection = self.connections.get(link or 0)
        if link is None or connection is None or connection.closed:
            return
        # In order: never before what was sent before.
        at = max(self.now + self.delay(), connection.clear_at[to_leader])
        connection.clear_at[to_leader] = at
        # Not by a delay: the sum of a difference may round to just before the message that was sent first.
        self.at_time(at, lambda: self.arrive(link, message, to_leader=to_leader))

    def arrive(self, link: int, message: Message, *, to_leader: bool) -> None:
        connection = self.connections[link]
        end = connection.leader if to_leader else connection.member
        if connection.cut or end.dead or (connection.closed and to_leader and isinstance(message, Hello)):
            return
        if end.frozen:
            end.inbox.append(partial(self.arrive, link, message, to_leader=to_leader))
            return
        if not to_leader:
            if end.link == link:
                self.act(end, end.machine.handle_message(message))
        elif end.leader is not None and isinstance(message, Hello):
            self.carry_out(end.leader.member_connected(link, message, self.now))
        elif end.leader is not None:
            self.carry_out(end.leader.handle_message(link, message, self.now))

    def close(self, link: int) -> None:
        """Close a connection; both ends detect it, unless the network is cut between them."""
        connection = self.connections[link]
        if connection.closed:
            return
        connection.closed = True
        if not connection.cut:
            for end in (connection.member, connection.leader):
                at = max([self.now + self.delay(), *connection.clear_at])
                self.at_time(at, partial(self.lost, link, end, lease_expired=False))
        else:
            self.silence(link)

    def cut(self, rank: int) -> None:
        """The network between a member and its leader loses everything from now on; both wait for their lease."""
        node = self.at(rank)
        if node is None or node.link is None or rank == 0:
            return
        connection = self.connections[node.link]
        if not connection.closed and not connection.cut:
            connection.cut = True
            self.silence(node.link)

    def freeze(self, rank: int, seconds: float) -> None:
        """Pause the node of a launcher for a while: it sends nothing, and messages to it wait."""
        node = self.at(rank)
        if node is None or node.frozen or node.isolated:
            return
        node.frozen = True
        for link, connection in self.connections.items():
            remote = connection.member is not connection.leader and not connection.closed
            if remote and node in (connection.member, connection.leader):
                other = connection.leader if node is connection.member else connection.member
                self.later(LEASE_SECONDS - self.random.random(), partial(self.unheard, link, node, other))
        self.later(seconds, partial(self.thaw, node))

    def unheard(self, link: int, frozen: Node, other: Node) -> None:
        """Have the lease of a connection to a paused node expire."""
        connection = self.connections[link]
        if frozen.frozen and not connection.closed and not connection.cut:
            connection.closed = True
            frozen.inbox.append(partial(self.lost, link, frozen, lease_expired=False))
            self.lost(link, other, lease_expired=True)

    def thaw(self, node: Node) -> None:
        """Resume a node, and deliver all messages to it in their order."""
        node.frozen = False
        inbox, node.inbox = node.inbox, []
        for happened in inbox:
            happened()

    def split(self, rank: int) -> None:
        """Partition the node of a launcher, which continues, and replace the launcher on another node."""
        node = self.at(rank)
        if node is None or node.frozen:
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
        """Start the replacement of a launcher that is partitioned or has left its node, unless it has one."""
        if next(n for n in reversed(self.nodes) if n.rank == lost.rank) is lost:
            self.boot(lost.rank, parallel=True)

    def silence(self, link: int) -> None:
        connection = self.connections[link]
        for end in (connection.member, connection.leader):
            # Each has heard the other last at some time before the cut: the two directions may fail one by one.
            self.later(LEASE_SECONDS * self.random.random(), partial(self.lost, link, end, lease_expired=True))

    def lost(self, link: int, end: Node, *, lease_expired: bool) -> None:
        connection = self.connections[link]
        if end.dead:
            return
        if end.frozen:
            # The other side has closed it meanwhile, and this side is notified; if the network was cut, it is not.
            end.inbox.append(partial(self.lost, link, end, lease_expired=lease_expired and connection.cut))
            return
        if end is connection.member and end.link == link:
            end.link = None
            self.act(end, end.machine.connection_lost(lease_expired=lease_expired))
        if end is connection.leader and end.leader is not None:
            self.carry_out(end.leader.member_disconnected(link, self.now, lease_expired=lease_expired))

    def carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(link, message):
                    self.send(link, message, to_leader=False)
                case Close(link):
                    self.close(link)

    @property
    def running(self) -> list[int | None]:
        members = [self.at(rank) for rank in range(self.size)]
        return [node.program if node and not node.is_forgotten else None for node in members]
