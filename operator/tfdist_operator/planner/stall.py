"""Finds jobs that run and get nowhere: no step, checkpoint or phase has changed for too long."""

from dataclasses import dataclass
from typing import Final

from tfdist.contract import Phase
from tfdist_operator.observed.gang import GangState
from tfdist_operator.observed.pod import PodState
from tfdist_operator.observed.view import Evidence, Pace
from tfdist_operator.planner.look import Look
from tfdist_operator.planner.plan import Question

LEARNED_MOVES: Final = 5
"""Moves that `Auto` wants to have seen before it judges."""
LEARNED_FACTOR: Final = 10.0
LEARNED_LEAST_SECONDS: Final = 120.0
LAUNCHED_FACTOR: Final = 3.0
_START_SECONDS: Final = 300.0
_STARTING: Final = frozenset({Phase.STARTING, Phase.RENDEZVOUS, Phase.COMPILING})


@dataclass(frozen=True, slots=True)
class Moving:
    """The gang moves, as far as is known, or is asked why it does not."""

    moving: bool = True
    ask: tuple[Question, ...] = ()
    ask_about: str = ""
    look_again_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Stall:
    """The gang has stood still for `seconds`; `evidence` says who is behind."""

    seconds: float
    evidence: Evidence


def check_progress(look: Look, state: GangState) -> Moving | Stall:
    """Return whether a gang that runs gets anywhere.

    A program that reports nothing is never called stalled. Before a stall is acted on, every replica is asked
    where it stands.
    """
    pace = look.view.pace
    if pace is None or pace.attempt != state.record.attempt_of(state.gang.leader):
        return Moving(moving=False)
    deadline = deadline_seconds(look, pace)
    if deadline is None:
        return Moving(moving=pace.moves > 0)
    still = look.seconds_since(pace.moved_at)
    if still < deadline:
        return Moving(look_again_seconds=deadline - still)
    about = f"attempt {pace.attempt} since {pace.moved_at}"
    evidence = look.view.evidence
    if evidence is None or evidence.about != about:
        running = (p for p in state.pods if p.state is PodState.RUNNING)
        return Moving(moving=False, ask=tuple(Question(p.role, p.index, p.ip) for p in running), ask_about=about)
    return Stall(still, evidence)


def deadline_seconds(look: Look, pace: Pace) -> float | None:
    """Return how long a gang may stand still; None for ever.

    A number holds for steps: until the first one is done, finding each other and compiling get five minutes at least.
    `Auto` takes ten times the longest pause between two moves of this attempt, at least two minutes: pauses for
    compilation, checkpoints and evaluation have been among them by then. Launchers act by the same deadline; the
    controller waits longer, and acts where they do not get on.
    """
    wanted = look.spec.run_policy.progress_deadline_seconds
    if wanted is None:
        return None
    if wanted == "Auto" and pace.moves < LEARNED_MOVES:
        return None
    learned = max(LEARNED_LEAST_SECONDS, LEARNED_FACTOR * pace.longest_gap_seconds)
    patience = LAUNCHED_FACTOR if look.view.report and look.view.report.content.gang else 1.0
    if wanted == "Auto":
        return patience * learned
    return patience * max(float(wanted), _START_SECONDS if _is_starting(look) else 0.0)


def _is_starting(look: Look) -> bool:
    report = look.view.report
    return report is not None and report.content.phase in _STARTING
