"""Each line of the controller's log is a JSON object that log collectors can index."""

import json
import logging
from datetime import datetime
from typing import Any

import pytest

from tfdist_operator.logs import json_formatter


def logged(message: str, exception: BaseException | None = None, **extra: object) -> dict[str, Any]:
    raised = (type(exception), exception, exception.__traceback__) if exception else None
    record = logging.getLogger().makeRecord("tfdist", logging.WARNING, __file__, 1, message, (), raised, extra=extra)
    line = json_formatter().format(record)
    assert "\n" not in line
    return dict(json.loads(line))


def test_a_line_has_time_level_logger_event_and_the_fields_of_the_event() -> None:
    line = logged("pod created", job="fashion", took=ValueError("odd"))
    assert list(line) == ["time", "level", "logger", "event", "job", "took"]
    assert datetime.fromisoformat(line.pop("time")).tzinfo
    assert line == {"level": "warning", "logger": "tfdist", "event": "pod created", "job": "fashion", "took": "odd"}


def test_an_exception_is_a_field_with_its_traceback() -> None:
    with pytest.raises(ValueError, match="many") as raised:
        int("many")
    assert logged("failed", raised.value)["exception"].endswith("int() with base 10: 'many'")


def test_what_kopf_adds_for_itself_is_omitted() -> None:
    assert set(logged("seen", settings=object(), k8s_ref={}, k8s_skip=True)) == {"time", "level", "logger", "event"}
