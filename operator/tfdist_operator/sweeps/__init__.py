"""Reconciles a sweep by its key: creates, suspends, resumes and deletes the jobs of its trials."""

from tfdist_operator.sweeps.dependencies import SweepDependencies
from tfdist_operator.sweeps.reconciler import SweepReconciler
from tfdist_operator.sweeps.requests import SweepRequests

__all__ = ["SweepDependencies", "SweepReconciler", "SweepRequests"]
