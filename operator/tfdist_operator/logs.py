"""Logs with one JSON object per line: time, level, logger, an event name, and its fields."""

import logging
import sys
from datetime import UTC, datetime
from typing import Final

import orjson

_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_KOPF_ADDS: Final = "settings"
"""All of kopf's settings, with every line about an object."""


class JsonFormatter(logging.Formatter):
    """Formats a record with everything that was passed as `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line of JSON."""
        fields = {
            k: v for k, v in vars(record).items() if k not in _STANDARD and k != _KOPF_ADDS and not k.startswith("k8s_")
        }
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
            **fields,
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return orjson.dumps(line, default=str).decode()


def _is_no_rejection(record: logging.LogRecord) -> bool:
    """Omit kopf's error for each job that the webhook rejects: its author receives the response."""
    return not record.getMessage().startswith("Webhook ")


def configure(level: str) -> None:
    """Send the log of `level` and above to standard output; kopf's line for every handler call is omitted."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.getLogger("kopf").setLevel(logging.WARNING)
    logging.getLogger("kopf.objects").addFilter(_is_no_rejection)
