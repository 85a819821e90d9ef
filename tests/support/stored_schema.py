"""What the API server accepts: a value checked against a structural schema, as of the CRD that is shipped.

Stricter in one thing: a field that the schema does not know is a problem, for the API server would drop it.
"""

import math
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from tfdist.api.crd import crd

Schema = Mapping[str, Any]
_INT64 = 2**63
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")


def status_problems(status: Mapping[str, Any]) -> list[str]:
    """Return what keeps the API server from storing a status of a TFDistJob."""
    return list(problems(status, _status_schema(), "status"))


@cache
def _status_schema() -> Schema:
    root: Schema = crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return dict(root["properties"]["status"])


def problems(value: Any, schema: Schema, path: str) -> Iterator[str]:
    """Yield what is wrong with a value."""
    kind = schema.get("type")
    if kind is not None and not _is(value, kind):
        yield f"{path}: {value!r:.60} is no {kind}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{path}: {value!r:.60} is none of {schema['enum']}"
    match value:
        case str():
            yield from _text(value, schema, path)
        case bool():
            pass
        case int() | float():
            yield from _number(value, schema, path)
        case list():
            yield from _items(value, schema, path)
        case dict():
            yield from _fields(value, schema, path)


def _is(value: Any, kind: str) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    whole = number and isinstance(value, int)
    types = {"string": isinstance(value, str), "boolean": isinstance(value, bool), "array": isinstance(value, list)}
    return bool((types | {"object": isinstance(value, dict), "integer": whole, "number": number})[kind])


def _text(value: str, schema: Schema, path: str) -> Iterator[str]:
    if len(value) > schema.get("maxLength", math.inf) or len(value) < schema.get("minLength", 0):
        yield f"{path}: {len(value)} characters"
    if "pattern" in schema and not re.search(schema["pattern"], value):
        yield f"{path}: {value!r:.60} does not match {schema['pattern']}"
    if schema.get("format") == "date-time" and not _TIME.fullmatch(value):
        yield f"{path}: {value!r:.60} is no time"
    try:
        value.encode()
    except UnicodeEncodeError:
        yield f"{path}: no UTF-8"


def _number(value: float, schema: Schema, path: str) -> Iterator[str]:
    if isinstance(value, float) and not math.isfinite(value):
        yield f"{path}: {value} is no number of JSON"
    elif isinstance(value, int) and not -_INT64 <= value < _INT64:
        yield f"{path}: more than 64 bits"
    elif not schema.get("minimum", -math.inf) <= value <= schema.get("maximum", math.inf):
        yield f"{path}: {value} is out of bounds"


def _items(value: list[Any], schema: Schema, path: str) -> Iterator[str]:
    if len(value) > schema.get("maxItems", math.inf):
        yield f"{path}: {len(value)} items"
    keys = schema.get("x-kubernetes-list-map-keys")
    if keys and len({tuple(item.get(key) for key in keys) for item in value}) < len(value):
        yield f"{path}: two items of one key"
    for number, item in enumerate(value):
        yield from problems(item, schema["items"], f"{path}[{number}]")


def _fields(value: dict[str, Any], schema: Schema, path: str) -> Iterator[str]:
    properties, other = schema.get("properties", {}), schema.get("additionalProperties")
    open_ = schema.get("x-kubernetes-preserve-unknown-fields") or other == {}
    if len(value) > schema.get("maxProperties", math.inf):
        yield f"{path}: {len(value)} fields"
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{path}.{name}: required"
    for name, content in value.items():
        if name in properties:
            yield from problems(content, properties[name], f"{path}.{name}")
        elif other:
            yield from problems(content, other, f"{path}.{name}")
        elif not open_:
            yield f"{path}.{name}: not in the schema"
