"""Knowledge of Kubernetes' pod template: which fields there are, what is wrong with one, and how two merge."""

from tfdist.podspec.check import OVERLAY, problems
from tfdist.podspec.merge import merge
from tfdist.podspec.quantity import format_quantity, parse_quantity

__all__ = ["OVERLAY", "format_quantity", "merge", "parse_quantity", "problems"]
