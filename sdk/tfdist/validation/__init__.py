"""Validation of a TFDistJob: all errors of a manifest at once, each with the path of its field; `sweep` for sweeps."""

from tfdist.validation.errors import FieldError, ValidationFailed
from tfdist.validation.parse import parse
from tfdist.validation.warnings import warnings

__all__ = ["FieldError", "ValidationFailed", "parse", "warnings"]
