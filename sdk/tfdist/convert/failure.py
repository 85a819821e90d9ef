"""Restart policies of replica types as rules of the job's failure policy, and the limit on restarts."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Final

from tfdist.contract import Role
from tfdist.convert.replicas import Replicas, Restart
from tfdist.convert.result import Json, Remark

MOST_RESTARTS: Final = 1000
"""The highest limit that TFDist takes: in practice no limit."""

PERMANENT_CODES: Final = tuple(range(1, 128))
"""Exit codes after which the peer does not start a replica with policy `ExitCode` again."""

_DISRUPTED: Final[Json] = {
    "action": "RestartWithoutCount",
    "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
}
_RESTARTED: Final = (
    "a failure starts a new attempt in new pods, not the container in its pod; exit codes 64, 65, 66, 78, 126 and 127 "
    "fail the job, because they tell of mistakes that no restart cures"
)
_MEANING: Final = {
    Restart.NEVER: "any exit code but 0 fails the job, as it did; an evicted, preempted or lost pod no longer does",
    Restart.EXIT_CODE: "codes 1 to 127 fail the job and 128 to 255 restart, as they did; the restarts count toward "
    "backoffLimit now, and an evicted or preempted pod restarts whatever its code",
    Restart.ON_FAILURE: _RESTARTED,
    Restart.ALWAYS: f"{_RESTARTED}; a replica that ends with 0 is done and is not started again",
}


def failure_policy(replicas: Mapping[Role, Replicas], *, dynamic: bool, remark: Remark) -> Json | None:
    """Return the job's failure policy, or None where TFDist's own rules say the same.

    Args:
        replicas: the replica types.
        dynamic: whether the TFJob lives with the loss of workers.
        remark: takes the notes.
    """
    ruled = [r for r in replicas.values() if not (dynamic and r.role is Role.WORKER)]
    for r in replicas.values():
        if r not in ruled:
            remark(f"{r.path}.restartPolicy", "no rule: with enableDynamicWorker a failed worker never failed the job")
    for restart in Restart:
        alike = [r for r in ruled if r.restart is restart]
        if alike:
            who = f" ({', '.join(r.key for r in alike)})" if len(alike) > 1 else ""
            remark(f"{alike[0].path}.restartPolicy", f"{restart}{who}: {_MEANING[restart]}")
    rules = [
        *_rule(ruled, Restart.NEVER, {"operator": "NotIn", "values": [0]}, len(replicas)),
        *_rule(ruled, Restart.EXIT_CODE, {"operator": "In", "values": list(PERMANENT_CODES)}, len(replicas)),
    ]
    return {"rules": [deepcopy(_DISRUPTED), *rules]} if rules else None


def _rule(replicas: Sequence[Replicas], restart: Restart, codes: Json, of: int) -> list[Json]:
    roles = [str(r.role) for r in replicas if r.restart is restart]
    if not roles:
        return []
    return [{"action": "FailJob", "onExitCodes": codes} | ({"roles": roles} if len(roles) < of else {})]


def backoff_limit(given: int | None, replicas: Mapping[Role, Replicas], *, dynamic: bool, remark: Remark) -> int | None:
    """Return the limit on restarts, or None where none is needed: nothing but disruptions restarts the job.

    Args:
        given: the TFJob's limit, if it has one.
        replicas: the replica types.
        dynamic: whether the TFJob lives with the loss of workers.
        remark: takes the notes.
    """
    path = "spec.runPolicy.backoffLimit"
    restarting = dynamic or any(r.restart is not Restart.NEVER for r in replicas.values())
    if given is None:
        if not restarting:
            return None
        remark(path, f"no limit in a TFJob that has none, so {MOST_RESTARTS} is written, the most there is")
        return MOST_RESTARTS
    limit = min(max(given, 0), MOST_RESTARTS)
    changed = "" if limit == given else f"{given} became {limit}, the nearest there is; "
    remark(path, f"{changed}counts attempts since the last new checkpoint, not restarts of containers in running pods")
    return limit
