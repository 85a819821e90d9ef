"""Settings of the launchers, which restart the training processes of a gang in place: its members and their limits.

Whether an image contains the launcher is unknown here. A replica whose own command does not start the launcher gets
no settings: for hundreds of replicas they would be most of the pod's size.
"""

from collections.abc import Callable, Mapping
from typing import Any

from tfdist.api.gang_status import GangStatus
from tfdist.api.policies import SuccessPolicy
from tfdist.api.v1 import Strategy, TFDistJob
from tfdist.contract import LAUNCH_PORT, LaunchMember, LaunchSettings, LeaderSettings, Role, member_ranges
from tfdist.render import names
from tfdist.render.command import DEFAULT_COMMAND, LAUNCHER
from tfdist.render.gang import Gang, GangName, Member
from tfdist.render.template import main_container, role_template


def pod_launch_settings(
    job: TFDistJob, gang: Gang, gang_status: GangStatus, cluster_domain: str = ""
) -> Callable[[Member], LaunchSettings] | None:
    """Return the settings by member, or None if a role does not use the launcher or the gang does not train.

    An evaluation gang restarts from its checkpoint in seconds and does not need in-place restarts.
    """
    # Without a launcher the settings would only lengthen TFDIST_JOB in each pod.
    if not uses_launcher(job, gang):
        return None
    leader = gang.leader
    address = names.address(job, leader.role, leader.index, LAUNCH_PORT, cluster_domain)
    return launch_settings(job, gang, address, gang_status, standby=job.spec.run_policy.standby)


def uses_launcher(job: TFDistJob, gang: Gang) -> bool:
    """Return whether launchers may restart a gang in place: it trains together, each role possibly under a launcher."""
    if gang.name is not GangName.TRAINING or job.spec.strategy is Strategy.INDEPENDENT:
        return False
    return all(_uses_launcher(job, role) for role in {m.role for m in gang.members})


def launch_settings(
    job: TFDistJob, gang: Gang, leader: str, gang_status: GangStatus | None = None, *, standby: bool = False
) -> Callable[[Member], LaunchSettings]:
    """Return the settings of the launchers, by member of `gang`.

    Args:
        job: the job.
        gang: the gang.
        leader: `host:port` of the leading launcher.
        gang_status: attempts and restarts so far; none by default.
        standby: whether each replica keeps a standby process.
    """
    state = gang_status or GangStatus()
    leader_settings = _leader_settings(job, gang, state)
    ranks = {member: rank for rank, member in enumerate(gang.members)}

    def settings(member: Member) -> LaunchSettings:
        rank = ranks[member]
        return LaunchSettings(
            leader=leader,
            rank=rank,
            standby=standby or None,
            gang_attempt=state.last_full_restart,
            gang=None if rank else leader_settings,
        )

    return settings


def _leader_settings(job: TFDistJob, gang: Gang, gang_status: GangStatus) -> LeaderSettings:
    """Return the settings that only the leading launcher gets: the members and the limits."""
    policy, rules = job.spec.run_policy, job.spec.failure_policy.rules if job.spec.failure_policy else ()
    return LeaderSettings(
        member_ranges=member_ranges(
            LaunchMember(
                role=member.role,
                index=member.index,
                attempt=gang_status.attempt_of(member.name),
                required_for_success=_required_for_success(job, gang, member),
            )
            for member in gang.members
        ),
        backoff_limit=policy.backoff_limit,
        rules=[rule.model_dump(mode="json", by_alias=True, exclude_none=True) for rule in rules],
        progress_deadline_seconds=policy.progress_deadline_seconds,
        prior_restarts=gang_status.prior_restarts(),
    )


def _required_for_success(job: TFDistJob, gang: Gang, member: Member) -> bool:
    """Return whether the gang succeeds only after the member has; parameter servers and their workers never end."""
    if member == gang.leader:
        return True
    if job.spec.strategy is Strategy.PARAMETER_SERVER or member.role is Role.PS:
        return False
    # Synchronous workers train to the same last step, so all of them must reach it.
    is_synchronous = job.spec.strategy is Strategy.MULTI_WORKER_MIRRORED
    return is_synchronous or job.spec.success_policy is SuccessPolicy.ALL_WORKERS


def _uses_launcher(job: TFDistJob, role: Role) -> bool:
    """Return whether a role may run under the launcher: its command names it, or comes from the image."""
    container: Mapping[str, Any] = main_container(role_template(job, role))
    # The entry point of the user's image is unknown here and may be the launcher.
    default = () if "image" in container else DEFAULT_COMMAND
    command = container.get("command", default)
    return not command or any(LAUNCHER in argument for argument in (*command, *container.get("args", ())))
