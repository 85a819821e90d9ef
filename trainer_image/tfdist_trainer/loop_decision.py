"""What the members decide together between two executions of the training graph.

They agree on the number of steps, on saving and on stopping. The chief proposes, any member may request to stop for
preemption, and all follow the sum of the proposals. The same exchange shares how long each member takes for a step.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from tfdist_trainer.gang_times import GangTimes
from tfdist_trainer.strategies.replica_group import ReplicaGroup

_DECISION_VALUES: Final = 5


@dataclass(frozen=True, slots=True)
class LoopDecision:
    """What all members do next."""

    steps: int
    save: bool = False
    stop: bool = False
    """Whether to save and exit, because a member received SIGTERM."""
    compiled: bool = False
    """Whether XLA compiles these steps."""
    stop_early: bool = False
    """Whether training ends here, before its last step (early stopping)."""


def agree(gang: ReplicaGroup, proposal: LoopDecision, times: GangTimes | None = None) -> LoopDecision:
    """Return the gang's decision from each member's proposal; a collective.

    The chief's proposal counts as a whole, and `stop` of any member. The same exchange shares `times`, which all
    members pass or none.
    """
    chief = gang.member.is_chief
    # A sum in which only the chief has a proposal is its broadcast; `stop` is summed over all.
    values = [proposal.steps, proposal.save, proposal.compiled, proposal.stop_early] if chief else [0, 0, 0, 0]
    # In the same exchange: a collective of its own would cost a round trip for each execution.
    shared = times.figures_to_share() if times is not None else []
    (steps, save, compiled, stop_early, stop), figures = np.split(
        gang.all_reduce_sum([*values, proposal.stop, *shared]), [_DECISION_VALUES]
    )
    if times is not None:
        times.receive(figures)
    return LoopDecision(round(float(steps)), bool(save), bool(stop), bool(compiled), bool(stop_early))
