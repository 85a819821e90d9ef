"""Turns TFJob manifests of the Kubeflow training operator (`kubeflow.org/v1`) into TFDistJobs.

The result is written as a person would: short forms where they suffice, what the roles share said once. Every field
of the TFJob is kept, or a note says what became of it; no API server and no YAML is needed.
"""

from tfdist.convert.job import convert
from tfdist.convert.result import CannotConvert, Conversion, Note

__all__ = ["CannotConvert", "Conversion", "Note", "convert"]
