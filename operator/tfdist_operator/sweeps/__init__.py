"""Reconciles a sweep by its key: creates, suspends, resumes and deletes the jobs of its trials."""

from tfdist_operator.requests.sweep_requests import SweepRequests
from tfdist_operator.sweeps.reconciler import SweepDependencies, SweepReconciler

__all__ = ["SweepDependencies", "SweepReconciler", "SweepRequests"]
