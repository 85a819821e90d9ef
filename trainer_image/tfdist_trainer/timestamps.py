"""The time of an event, as text."""

import datetime as dt


def now_text() -> str:
    """Return the current time in UTC as RFC 3339 with milliseconds."""
    return dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
