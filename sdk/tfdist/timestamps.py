"""Times in a status: RFC 3339 in UTC, to the second. The time itself is always an argument."""

import re
from datetime import UTC, datetime


def rfc3339(moment: datetime) -> str:
    """Return `moment` (with a time zone) in the format of metav1.Time."""
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def as_rfc3339(text: str) -> str:
    """Return a text from a pod or a user that has the format of `rfc3339`; "" for any other."""
    return text if re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", text) else ""


def parse_time(text: str) -> datetime:
    """Return the time of an RFC 3339 `text`.

    Raises:
        ValueError: `text` is not RFC 3339.
    """
    return datetime.fromisoformat(text)
