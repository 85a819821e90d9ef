"""Knowledge of Kubernetes' pod template: which fields there are, what is wrong with one, and how two merge."""

from tfdist.podspec.check import problems
from tfdist.podspec.merge import merge
from tfdist.podspec.quantity import format_quantity, parse_quantity

__all__ = ["format_quantity", "merge", "parse_quantity", "problems"]
