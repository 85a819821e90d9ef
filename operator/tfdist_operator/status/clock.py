"""Times in a status: RFC 3339 in UTC, to the second. The time itself is always an argument."""

from datetime import UTC, datetime


def rfc3339(moment: datetime) -> str:
    """Return `moment` (with a time zone) as Kubernetes writes it."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_time(text: str) -> datetime:
    """Return the moment that RFC 3339 `text` names.

    Raises:
        ValueError: it is none.
    """
    return datetime.fromisoformat(text)
