"""Checks of a TFDistJob: everything that is wrong with it, all at once, each mistake with the path of its field."""

from tfdist.validation.parse import parse
from tfdist.validation.problems import InvalidJob, Problem

__all__ = ["InvalidJob", "Problem", "parse"]
