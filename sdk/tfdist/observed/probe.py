"""The result of probing replicas: which one is behind, and the stacks of each."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from tfdist.observed.job_view import ProbeResult
from tfdist.printable import printable
from tfdist.restarts.stall import StepPosition, behind

_KEPT_STACKS: Final = 4096
"""Maximum characters of all replicas' stacks in a failure record: users read the status."""
_LEAST_STACKS: Final = 256
"""Minimum for one replica; of a larger gang the record has the stacks of the first replicas."""
SHOWN_STACKS: Final = _KEPT_STACKS // _LEAST_STACKS
"""Maximum number of replicas whose stacks are of use."""


class Unreported(StrEnum):
    """Why a report is missing. Only `NO_ANSWER` indicates a replica that hangs or cannot be reached."""

    NO_ANSWER = "no answer"
    NO_SERVER = "no report server"
    """Its kernel rejects the connection: the program does not report, or has just ended."""
    UNREADABLE = "unreadable answer"


Answer = tuple[StepPosition | Unreported, str | Unreported | None]
"""Position, and stacks (None: not requested)."""


def probe_result(probe_id: str, answers: Mapping[str, Answer], replicas: int) -> ProbeResult:
    """Return the suspect of a stall: the first replica that does not answer, else the one that is behind, if any.

    Args:
        probe_id: identity of the probe.
        answers: answers by name of the replica, without those that were not asked or had no time to answer.
        replicas: number of replicas of the probe.
    """
    silent = tuple(name for name, (position, _) in answers.items() if position is Unreported.NO_ANSWER)
    positions = {name: position for name, (position, _) in answers.items() if not isinstance(position, Unreported)}
    slowest = behind(positions) if len(positions) == replicas else ""
    share = max(_KEPT_STACKS // max(1, replicas), _LEAST_STACKS)
    stacks = "\n".join(f"{name}: {_ending(text, share)}" for name, (_, text) in answers.items() if text is not None)
    return ProbeResult(probe_id, silent[0] if silent else slowest, stacks[:_KEPT_STACKS], silent, positions)


def _ending(stacks: str | Unreported, share: int) -> str:
    """Return the end of the stacks, which has the main thread."""
    match stacks:
        case Unreported.NO_ANSWER:
            return "does not answer"
        case Unreported.NO_SERVER:
            return "has no report server"
        case Unreported.UNREADABLE:
            return "returns no readable stacks"
        case _:
            return printable(stacks.strip()[-share:])
