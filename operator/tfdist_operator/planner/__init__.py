"""From a look at a job and the time to everything that is to be done. Pure: no I/O, no clock, no randomness.

`plan` may be called with any view at any time: what is done already is not planned again, and a plan that was
carried out in part, or whose effects are not seen yet, is completed by the next one.
"""

from tfdist_operator.planner.job import plan
from tfdist_operator.planner.plan import Event, Plan, Settings

__all__ = ["Event", "Plan", "Settings", "plan"]
