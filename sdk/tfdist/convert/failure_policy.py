"""Converts the restart policies of replica types to rules of the job's failure policy, and the limit on restarts."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Final

from tfdist.contract import Role
from tfdist.convert.replicas import Replicas, Restart
from tfdist.convert.result import AddNote, Json

MAX_BACKOFF_LIMIT: Final = 1000
"""Maximum of `backoffLimit` in TFDist: in practice no limit."""

PERMANENT_CODES: Final = tuple(range(1, 128))
"""Exit codes after which the training-operator does not restart a replica with policy `ExitCode`."""

_DISRUPTED: Final[Json] = {
    "action": "RestartWithoutCount",
    "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
}
_RESTARTED: Final = (
    "a failure starts a new attempt in new pods instead of restarting the container; exit codes 64, 65, 66, 78, 126 "
    "and 127 fail the job, because a restart does not fix the errors that they stand for"
)
_MEANING: Final = {
    Restart.NEVER: "any exit code but 0 fails the job, as before; an evicted, preempted or lost pod no longer does",
    Restart.EXIT_CODE: "codes 1 to 127 fail the job and 128 to 255 restart, as before; now the restarts count toward "
    "backoffLimit, and an evicted or preempted pod restarts with any exit code",
    Restart.ON_FAILURE: _RESTARTED,
    Restart.ALWAYS: f"{_RESTARTED}; a replica that exits with 0 has succeeded and does not restart",
}


def failure_policy(replicas: Mapping[Role, Replicas], *, dynamic: bool, add_note: AddNote) -> Json | None:
    """Return the job's failure policy, or None if TFDist's default rules are equivalent.

    Args:
        replicas: the replica types.
        dynamic: whether the TFJob continues after the loss of workers (`enableDynamicWorker`).
        add_note: adds a note to the result.
    """
    ruled = [r for r in replicas.values() if not (dynamic and r.role is Role.WORKER)]
    for r in replicas.values():
        if r not in ruled:
            add_note(
                f"{r.path}.restartPolicy", "no rule: with enableDynamicWorker a failed worker never failed the job"
            )
    for restart in Restart:
        alike = [r for r in ruled if r.restart is restart]
        if alike:
            keys = f" ({', '.join(r.key for r in alike)})" if len(alike) > 1 else ""
            add_note(f"{alike[0].path}.restartPolicy", f"{restart}{keys}: {_MEANING[restart]}")
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


def backoff_limit(
    given: int | None, replicas: Mapping[Role, Replicas], *, dynamic: bool, add_note: AddNote
) -> int | None:
    """Return `backoffLimit`, or None if only disruptions restart the job, which do not count.

    Args:
        given: the TFJob's limit, if it has one.
        replicas: the replica types.
        dynamic: whether the TFJob continues after the loss of workers (`enableDynamicWorker`).
        add_note: adds a note to the result.
    """
    path = "spec.runPolicy.backoffLimit"
    restarts = dynamic or any(r.restart is not Restart.NEVER for r in replicas.values())
    if given is None:
        if not restarts:
            return None
        add_note(path, f"a TFJob without it has no limit, so the maximum of {MAX_BACKOFF_LIMIT} is written")
        return MAX_BACKOFF_LIMIT
    limit = min(max(given, 0), MAX_BACKOFF_LIMIT)
    change = "" if limit == given else f"{given} became {limit}, the nearest valid value; "
    add_note(path, f"{change}counts attempts since the last new checkpoint, not restarts of containers in running pods")
    return limit
