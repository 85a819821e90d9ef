"""Scalar types of the resource, each bounded so that the API server can bound the cost of its CEL rules.

Numbers and booleans are strict, as for the API server: the string "3" is not a number.
"""

import re
from collections.abc import Sequence
from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field, PlainValidator, Strict, StringConstraints, WithJsonSchema
from pydantic_core import PydanticCustomError

from tfdist.api import patterns

INT32_MAX: Final = 2**31 - 1

Boolean = Annotated[bool, Strict()]
Name = Annotated[str, StringConstraints(min_length=1, max_length=253)]
Text = Annotated[str, StringConstraints(max_length=4096)]
Path = Annotated[str, StringConstraints(min_length=1, max_length=1024)]
Directory = Annotated[str, StringConstraints(min_length=1, max_length=1024, pattern=patterns.DIRECTORY)]
"""An absolute path in the pods, or a URL that TensorFlow can open."""
Image = Annotated[str, StringConstraints(min_length=1, max_length=1024)]
Count = Annotated[int, Strict(), Field(ge=1, le=INT32_MAX)]
Natural = Annotated[int, Strict(), Field(ge=0, le=INT32_MAX)]
Replicas = Annotated[int, Strict(), Field(ge=1, le=10000)]
Seconds = Annotated[int, Strict(), Field(ge=1, le=INT32_MAX)]

Whole = Annotated[int, Field(ge=0)]
Amount = Annotated[float, Field(ge=0)]
Time = Annotated[str, StringConstraints(max_length=64), Field(json_schema_extra={"format": "date-time"})]
"""An RFC 3339 time."""
Metrics = Annotated[dict[str, float], Field(max_length=64)]


def _quantity(value: Any) -> int | str:
    """Return a quantity as given, so that messages and rendered objects show it unchanged.

    Raises:
        PydanticCustomError: it is not a quantity.
    """
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    if isinstance(value, str) and len(value) <= MAX_QUANTITY and _QUANTITY.fullmatch(value):
        return value
    raise PydanticCustomError("quantity", "must be a quantity, such as 2, 500m or 16Gi; quote fractions")


MAX_QUANTITY: Final = 64
_QUANTITY: Final = re.compile(patterns.QUANTITY)

Quantity = Annotated[
    int | str,
    PlainValidator(_quantity),
    WithJsonSchema(
        {"x-kubernetes-int-or-string": True, "minimum": 0, "maxLength": MAX_QUANTITY, "pattern": patterns.QUANTITY}
    ),
]
"""A quantity as in a container, such as `2`, `500m` or `16Gi`."""


def _port(value: Any) -> int | str:
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= LARGEST_PORT:
        return value
    if isinstance(value, str) and len(value) <= _LONGEST_PORT_NAME and _PORT_NAME.fullmatch(value):
        return value
    raise PydanticCustomError("port", "must be a port number from 1 to 65535, or the name of a container port")


LARGEST_PORT: Final = 65535
_LONGEST_PORT_NAME: Final = 15
_PORT_NAME: Final = re.compile(patterns.PORT_NAME)

PortNumber = Annotated[int, Strict(), Field(ge=1, le=LARGEST_PORT)]
PortOrName = Annotated[
    int | str,
    PlainValidator(_port),
    WithJsonSchema(
        {
            "x-kubernetes-int-or-string": True,
            "minimum": 1,
            "maximum": LARGEST_PORT,
            "maxLength": _LONGEST_PORT_NAME,
            "pattern": patterns.PORT_NAME,
        }
    ),
]
"""A port number, or the name of a container port."""

QualifiedName = Annotated[str, StringConstraints(max_length=316, pattern=patterns.QUALIFIED_NAME)]
"""Key of a label or name of a resource, such as `topology.kubernetes.io/rack`."""

DnsName = Annotated[str, StringConstraints(max_length=253, pattern=patterns.DNS_NAME)]
"""Name of an object, such as a PersistentVolumeClaim."""


def distinct(attribute: str | None = None) -> AfterValidator:
    """Return a validator that rejects a list with two equal items, or with two that are equal in `attribute`."""

    def validate(items: Sequence[Any] | None) -> Sequence[Any] | None:
        seen: dict[Any, int] = {}
        for i, item in enumerate(items or ()):
            key = getattr(item, attribute) if attribute else item
            if key in seen:
                where = {"first": seen[key], "second": i, "key": str(key)}
                raise PydanticCustomError("duplicate", "items {first} and {second} are both {key}", where)
            seen[key] = i
        return items

    return AfterValidator(validate)
