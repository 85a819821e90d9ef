"""Reconciles a job by its key: `reconciler` makes the plan, `executor` sends the requests."""

from tfdist_operator.reconcile.dependencies import Dependencies
from tfdist_operator.reconcile.reconciler import Reconciler

__all__ = ["Dependencies", "Reconciler"]
