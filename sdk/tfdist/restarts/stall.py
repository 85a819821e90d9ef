"""Stall detection: what counts as progress of a replica, the deadline for it, and who is behind.

The controller reads the report of the leader, and launchers read the reports of all members of a round. The deadline is
`progressDeadlineSeconds`; ADR 56 explains the values of `Auto`.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from tfdist.contract import Phase
from tfdist.contract_reports import ProgressReport

LEARNED_CHANGES: Final = 5
"""Changes of progress after which `Auto` knows the pauses of the steps."""
LEARNED_FACTOR: Final = 10.0
START_SECONDS: Final = 7200.0
"""Minimum of `Auto` before the first step: data is downloaded, buffers are filled and graphs compiled, silently."""
UNLEARNED_SECONDS: Final = 1800.0
"""Minimum of `Auto` after the first step, before it has learned; later in a phase without steps."""
SLOW_PHASE_SECONDS: Final = 300.0
"""Minimum of a number in a phase without steps: starting, rendezvous, compiling, saving, evaluating."""
NAMED_SECONDS: Final = 120.0
"""Time without progress after which messages name it, without any other consequence."""
_NAMED_FACTOR: Final = 2.0
_REPORTED_SECONDS: Final = 1.0
"""Age of a reported step while steps are completed: fewer seconds between two replicas show nothing."""


class Pauses(NamedTuple):
    """What is known about the progress of an attempt or round."""

    changes: int
    """Number of changes of progress."""
    longest: float
    """Longest time between two of them; before the first change, between the start and the first report. Seconds."""
    phases: frozenset[Phase] = frozenset()
    """Phases of the replicas, as far as they are known."""
    has_step: bool = False
    """Whether a replica reports the duration of a step: it has completed one in this process."""

    @property
    def is_slow(self) -> bool:
        """Whether a replica is in a phase without steps."""
        return any(phase is not Phase.TRAINING for phase in self.phases)


class StepPosition(NamedTuple):
    """The step of a replica, the duration of a step in milliseconds, and the steps of its whole training.

    None if it does not report them.
    """

    step: int | None
    step_millis: float | None = None
    total_steps: int | None = None


def whereabouts(report: ProgressReport) -> str:
    """Return what a replica does, as `is training at step 1 of 60`, for messages."""
    step = "" if report.step is None else f" at step {report.step}"
    return f"is {report.phase}{step}" + (f" of {report.total_steps}" if step and report.total_steps else "")


def progress_of(report: ProgressReport) -> tuple[object, ...]:
    """Return round, phase, step, checkpoint, evaluation and evaluated examples: a change of them is progress."""
    checkpoint_step = report.last_checkpoint.step if report.last_checkpoint else None
    evaluation_step = report.evaluation.step if report.evaluation else None
    examples = report.examples if report.phase is Phase.EVALUATING else None
    return report.round, report.phase, report.step, checkpoint_step, evaluation_step, examples


def pauses_of(reports: Iterable[ProgressReport], changes: int, longest: float) -> Pauses:
    """Return the pauses with what the newest reports of the replicas show."""
    known = list(reports)
    has_step = any(report.step_time_millis is not None for report in known)
    return Pauses(changes, longest, frozenset(report.phase for report in known), has_step)


def deadline_seconds(setting: int | str, pauses: Pauses, *, learned_minimum: float) -> float:
    """Return after how many seconds without progress a gang is stalled.

    Args:
        setting: `progressDeadlineSeconds`. `Auto` is ten times the longest pause so far, with a minimum that decreases
            from the start to the first step, and again when it has learned.
        pauses: what is known about the progress.
        learned_minimum: minimum of `Auto` in seconds when it has learned.
    """
    # A given number holds in training; phases without steps get at least five minutes.
    if not isinstance(setting, str):
        return max(float(setting), SLOW_PHASE_SECONDS if pauses.is_slow else 0.0)
    has_learned = pauses.changes >= LEARNED_CHANGES
    # Nothing is known before the first step: downloads and compilations may take hours (ADR 56).
    if Phase.STARTING in pauses.phases or not (has_learned or pauses.has_step):
        minimum = START_SECONDS
    else:
        minimum = learned_minimum if has_learned and not pauses.is_slow else UNLEARNED_SECONDS
    return max(LEARNED_FACTOR * pauses.longest, minimum)


def named_seconds(longest_pause: float) -> float:
    """Return after how many seconds without progress messages name that: longer than the job has paused so far."""
    return max(_NAMED_FACTOR * longest_pause, NAMED_SECONDS)


def position_of(report: ProgressReport) -> StepPosition:
    """Return the position of a replica."""
    return StepPosition(report.step, report.step_time_millis, report.total_steps)


def behind(positions: Mapping[str, StepPosition]) -> str:
    """Return the name of the one replica that has done fewer steps than all others; "" if none is known to be.

    Replicas of which one reports no step cannot be compared: often only the chief reports. Nor do a few steps show
    anything if they take less time than passes between two reports.
    """
    steps = {name: position.step for name, position in positions.items() if position.step is not None}
    # Nobody is behind unless all report their steps.
    if len(steps) < max(2, len(positions)):
        return ""
    (lowest, step), (_, next_step) = sorted(steps.items(), key=lambda item: item[1])[:2]
    millis = max((position.step_millis or 0.0 for position in positions.values()), default=0.0)
    is_late = next_step > step and (not millis or (next_step - step) * millis >= 1000 * _REPORTED_SECONDS)
    return lowest if is_late else ""


def stall_text(seconds: float, name: str, positions: Iterable[StepPosition]) -> str:
    """Return a message about a stall: for how long, and the replica that is behind, or else the steps of all.

    Args:
        seconds: time without progress.
        name: of the replica that is behind; "" if none is known to be.
        positions: of all replicas that have reported.
    """
    text = f"no step was completed for {seconds:.0f} s; {name or 'no replica is known to be'}"
    if name:
        return f"{text} is behind"
    known = [position for position in positions if position.step is not None]
    steps, totals = ({p.step for p in known if p.step is not None}, {p.total_steps for p in known if p.total_steps})
    if not steps:
        return f"{text} behind"
    where = f"step {min(steps)}" if len(steps) == 1 else f"steps {min(steps)} to {max(steps)}"
    differ = ""
    if len(totals) > 1:
        differ = f"; they expect {min(totals)} to {max(totals)} steps: all need the same number of batches"
    return f"{text} behind, all that report are at {where}{differ}"
