"""The time, as an argument of planning."""

from datetime import UTC, datetime


def utc_now() -> datetime:
    """Return the time."""
    return datetime.now(UTC)
