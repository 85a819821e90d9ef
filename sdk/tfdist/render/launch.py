"""What the launchers of a gang are told, which restart its programs in place: who they are and which limits hold.

Whether an image has the launcher is not known here. A program of the author's own that is not started by it is not
told of it: for hundreds of replicas that would be most of what a pod holds.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tfdist.api.policies import SuccessPolicy
from tfdist.api.v1 import Strategy, TFDistJob
from tfdist.contract import LAUNCH_PORT, LaunchMember, LaunchSettings, LeaderSettings, Restarts, Role
from tfdist.render import names
from tfdist.render.defaults import DEFAULT_COMMAND, LAUNCHER
from tfdist.render.gang import Gang, GangName, Member
from tfdist.render.template import main_container, role_template


def _first(_: Member) -> int:
    return 0


@dataclass(frozen=True, slots=True)
class Past:
    """What a gang has been through: the attempt of each member's pod, and the restarts so far."""

    attempt_of: Callable[[Member], int] = _first
    used: Restarts = field(default_factory=Restarts)


NO_PAST: Final = Past()


def launch_settings(
    job: TFDistJob, gang: Gang, past: Past, cluster_domain: str = ""
) -> Callable[[Member], LaunchSettings] | None:
    """Return what the launcher of a member of `gang` is told; None where none of them runs, or it is not training.

    Evaluation starts anew from a checkpoint in seconds, and nobody follows how its rounds go.
    """
    if gang.name is not GangName.TRAINING or not all(
        _may_have_it(job, role) for role in {m.role for m in gang.members}
    ):
        return None
    leader = gang.leader
    address = names.address(job, leader.role, leader.index, LAUNCH_PORT, cluster_domain)
    return settings_of(job, gang, address, past, standby=job.spec.run_policy.standby)


def settings_of(
    job: TFDistJob, gang: Gang, leader: str, past: Past = NO_PAST, *, standby: bool = False
) -> Callable[[Member], LaunchSettings]:
    """Return what the launcher of a member of `gang` is told.

    Args:
        job: the job.
        gang: the gang.
        leader: where the leader's launcher is, `host:port`.
        past: what the gang has been through.
        standby: whether each keeps a program in reserve.
    """
    led = _led(job, gang, past)
    seats = {member: seat for seat, member in enumerate(gang.members)}

    def told(member: Member) -> LaunchSettings:
        seat = seats[member]
        return LaunchSettings(leader=leader, seat=seat, standby=standby or None, gang=None if seat else led)

    return told


def _led(job: TFDistJob, gang: Gang, past: Past) -> LeaderSettings:
    """Return what the launcher that leads is told of the members and of the limits."""
    policy, rules = job.spec.run_policy, job.spec.failure_policy.rules if job.spec.failure_policy else ()
    return LeaderSettings(
        members=[
            LaunchMember(
                role=member.role,
                index=member.index,
                attempt=past.attempt_of(member),
                decides=_decides(job, gang, member),
            )
            for member in gang.members
        ],
        backoff_limit=policy.backoff_limit,
        rules=[rule.model_dump(mode="json", by_alias=True, exclude_none=True) for rule in rules],
        progress_deadline_seconds=policy.progress_deadline_seconds,
        used=past.used,
    )


def _decides(job: TFDistJob, gang: Gang, member: Member) -> bool:
    """Return whether the gang has not succeeded before the member has; those that serve others never end."""
    if member == gang.leader:
        return True
    if job.spec.strategy is Strategy.PARAMETER_SERVER or member.role is Role.PS:
        return False
    together = job.spec.strategy is Strategy.MULTI_WORKER_MIRRORED
    return together or job.spec.success_policy is SuccessPolicy.ALL_WORKERS


def _may_have_it(job: TFDistJob, role: Role) -> bool:
    """Return whether the launcher may start a role's program: its command says so, or its image has one of its own."""
    container: Mapping[str, Any] = main_container(role_template(job, role))
    default = () if "image" in container else DEFAULT_COMMAND
    command = container.get("command", default)
    return not command or any(LAUNCHER in word for word in (*command, *container.get("args", ())))
