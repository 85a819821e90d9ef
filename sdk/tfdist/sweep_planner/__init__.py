"""Plans one reconcile of a TFDistSweep: which trials start, stop, resume and are deleted, and its status."""

from tfdist.sweep_planner.plan import SweepPlan, plan_sweep
from tfdist.sweep_planner.view import SweepView, TrialJob

__all__ = ["SweepPlan", "SweepView", "TrialJob", "plan_sweep"]
