"""A check of `tfdist doctor`: its subject, its result, and the remedy."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from tfdist.client.errors import ClientError, Forbidden


class Result(StrEnum):
    """Result of a check."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"
    UNKNOWN = "unknown"
    """The user has no right to read the objects that the check needs."""


@dataclass(frozen=True, slots=True)
class Check:
    """A check and its result."""

    subject: str
    result: Result
    message: str
    remedy: str = ""


def ok(subject: str, message: str) -> Check:
    """Return a check without a finding."""
    return Check(subject, Result.OK, message)


def warning(subject: str, message: str, remedy: str = "") -> Check:
    """Return a check that does not stop every job."""
    return Check(subject, Result.WARNING, message, remedy)


def problem(subject: str, message: str, remedy: str = "") -> Check:
    """Return a check whose finding stops jobs."""
    return Check(subject, Result.PROBLEM, message, remedy)


def permitted(subject: str, check: Callable[[], Check]) -> Check:
    """Return the result of a check; `unknown` without the right to read the objects that it needs."""
    try:
        return check()
    except Forbidden:
        return Check(subject, Result.UNKNOWN, "you may not see this")
    except ClientError as error:
        return warning(subject, str(error))
