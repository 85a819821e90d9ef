"""What the launchers of a gang are told, which restart its programs in place: who they are and which limits hold.

Whether an image has the launcher is not known here. A program of the author's own that is not started by it is not
told of it: for hundreds of replicas that would be most of what a pod holds.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tfdist.api.v1 import TFDistJob
from tfdist.contract import LAUNCH_PORT, LaunchMember, LaunchSettings, Restarts, Role
from tfdist.render import names
from tfdist.render.defaults import DEFAULT_COMMAND
from tfdist.render.gang import Gang, GangName, Member
from tfdist.render.template import main_container, role_template

LAUNCHER: Final = "tfdist-launch"


def _first(_: Member) -> int:
    return 0


@dataclass(frozen=True, slots=True)
class Past:
    """What a gang has been through: the attempt of each member's pod, and the restarts so far."""

    attempt_of: Callable[[Member], int] = _first
    used: Restarts = field(default_factory=Restarts)


NO_PAST: Final = Past()


def launch_settings(job: TFDistJob, gang: Gang, past: Past, cluster_domain: str = "") -> LaunchSettings | None:
    """Return what the launchers of `gang` are told; None where none of them runs, or it is not training.

    Evaluation starts anew from a checkpoint in seconds, and nobody follows how its rounds go.
    """
    if gang.name is not GangName.TRAINING or not all(
        _may_have_it(job, role) for role in {m.role for m in gang.members}
    ):
        return None
    policy, rules = job.spec.run_policy, job.spec.failure_policy.rules if job.spec.failure_policy else ()
    return LaunchSettings(
        members=[_member(job, member, past, cluster_domain) for member in gang.members],
        backoff_limit=policy.backoff_limit,
        rules=[rule.model_dump(mode="json", by_alias=True, exclude_none=True) for rule in rules],
        progress_deadline_seconds=policy.progress_deadline_seconds,
        used=past.used,
    )


def _member(job: TFDistJob, member: Member, past: Past, cluster_domain: str) -> LaunchMember:
    return LaunchMember(
        role=member.role,
        index=member.index,
        address=names.address(job, member.role, member.index, LAUNCH_PORT, cluster_domain),
        attempt=past.attempt_of(member),
        decides=member.role is not Role.PS,
    )


def _may_have_it(job: TFDistJob, role: Role) -> bool:
    """Return whether the launcher may start a role's program: its command says so, or its image has one of its own."""
    container: Mapping[str, Any] = main_container(role_template(job, role))
    default = () if "image" in container else DEFAULT_COMMAND
    command = container.get("command", default)
    return not command or any(LAUNCHER in word for word in (*command, *container.get("args", ())))
