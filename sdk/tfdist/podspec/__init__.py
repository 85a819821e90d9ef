"""Kubernetes' pod template: its schema, validation against it, strategic merge, and quantities."""

from tfdist.podspec.check import OVERLAY, problems
from tfdist.podspec.merge import merge, merge_all
from tfdist.podspec.quantity import parse_quantity
from tfdist.podspec.resources import gpu_count

__all__ = ["OVERLAY", "gpu_count", "merge", "merge_all", "parse_quantity", "problems"]
