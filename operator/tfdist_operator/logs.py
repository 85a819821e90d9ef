"""Logs with one JSON object per line: time, level, logger, an event name, and its fields."""

import logging
import sys
from typing import Any, Final

from pythonjsonlogger.core import RESERVED_ATTRS
from pythonjsonlogger.orjson import OrjsonFormatter

_FIELDS: Final = {"levelname": "level", "name": "logger", "message": "event", "exc_info": "exception"}
_KOPF_FIELDS: Final = ["settings", "k8s_ref", "k8s_skip"]
"""Kopf adds all of its settings, and a reference, to every line about an object."""


class _Formatter(OrjsonFormatter):
    def process_log_record(self, log_data: dict[str, Any]) -> dict[str, Any]:
        return log_data | {"level": log_data["level"].lower()}


def json_formatter() -> logging.Formatter:
    """Return a formatter that writes a record, with everything that was passed as `extra`, as one line of JSON."""
    return _Formatter(
        ["levelname", "name", "message"],
        defaults={"time": None},  # reserves the first place for the timestamp
        timestamp="time",
        rename_fields=_FIELDS,
        reserved_attrs=[*RESERVED_ATTRS, *_KOPF_FIELDS],
        json_default=str,
    )


def _is_not_rejection(record: logging.LogRecord) -> bool:
    """Omit kopf's error for each job that the webhook rejects: its author receives the response."""
    return not record.getMessage().startswith("Webhook ")


def configure(level: str) -> None:
    """Send the log of `level` and above to standard output; kopf's line for every handler call is omitted."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(json_formatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.getLogger("kopf").setLevel(logging.WARNING)
    logging.getLogger("kopf.objects").addFilter(_is_not_rejection)
