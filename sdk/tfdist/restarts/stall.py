"""Stall detection: what counts as progress of a replica, and the deadline for it (`progressDeadlineSeconds`).

The controller reads the report of the leader, and launchers those of all members of a round.
"""

from collections.abc import Iterable
from typing import Final

from tfdist.contract import Phase
from tfdist.contract_reports import ProgressReport

LEARNED_CHANGES: Final = 5
"""Changes of progress that `Auto` needs before it applies a deadline."""
LEARNED_FACTOR: Final = 10.0
SLOW_PHASE_SECONDS: Final = 300.0
"""Minimum deadline in a phase without steps: starting, rendezvous, compiling, saving, evaluating."""


def progress_of(report: ProgressReport) -> tuple[object, ...]:
    """Return round, phase, step, checkpoint, evaluation and evaluated examples: a change of them is progress."""
    checkpoint_step = report.last_checkpoint.step if report.last_checkpoint else None
    evaluation_step = report.evaluation.step if report.evaluation else None
    examples = report.examples if report.phase is Phase.EVALUATING else None
    return report.round, report.phase, report.step, checkpoint_step, evaluation_step, examples


def deadline_seconds(
    setting: int | str, phases: Iterable[Phase], changes: int, longest_pause: float, *, learned_minimum: float
) -> float | None:
    """Return after how many seconds without progress a gang is stalled; None while `Auto` learns.

    Args:
        setting: `progressDeadlineSeconds`. `Auto` is ten times the longest pause between two changes of this attempt:
            by then the pauses include compilation, checkpoints and evaluation.
        phases: phases of the replicas, as far as they are known.
        changes: number of changes of progress.
        longest_pause: longest time between two of them in seconds.
        learned_minimum: minimum of `Auto` in seconds.
    """
    minimum = SLOW_PHASE_SECONDS if any(phase is not Phase.TRAINING for phase in phases) else 0.0
    if not isinstance(setting, str):
        return max(float(setting), minimum)
    return max(LEARNED_FACTOR * longest_pause, learned_minimum, minimum) if changes >= LEARNED_CHANGES else None
