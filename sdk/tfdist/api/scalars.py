"""The scalar types of the resource, each bounded so that the API server can bound the cost of its checks.

Numbers and booleans are strict: the text "3" is no number to the API server, so it is none here.
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
Image = Annotated[str, StringConstraints(min_length=1, max_length=1024)]
Count = Annotated[int, Strict(), Field(ge=1, le=INT32_MAX)]
Natural = Annotated[int, Strict(), Field(ge=0, le=INT32_MAX)]
Replicas = Annotated[int, Strict(), Field(ge=1, le=10000)]
Seconds = Annotated[int, Strict(), Field(ge=1, le=INT32_MAX)]


def _quantity(value: Any) -> int | str:
    """Return an amount as it was given, for its author to find it again; raise where it is none."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    if isinstance(value, str) and len(value) <= MAX_QUANTITY and _QUANTITY.fullmatch(value):
        return value
    raise PydanticCustomError("quantity", "write an amount, such as 2, 500m or 16Gi, fractions in quotes")


MAX_QUANTITY: Final = 64
_QUANTITY: Final = re.compile(patterns.QUANTITY)

Quantity = Annotated[
    int | str,
    PlainValidator(_quantity),
    WithJsonSchema(
        {"x-kubernetes-int-or-string": True, "minimum": 0, "maxLength": MAX_QUANTITY, "pattern": patterns.QUANTITY}
    ),
]
"""An amount as in a container, such as `2`, `500m` or `16Gi`."""

QualifiedName = Annotated[str, StringConstraints(max_length=316, pattern=patterns.QUALIFIED_NAME)]
"""A label's or resource's key, such as `topology.kubernetes.io/rack`."""

DnsName = Annotated[str, StringConstraints(max_length=253, pattern=patterns.DNS_NAME)]
"""The name of another object, such as a PersistentVolumeClaim."""


def distinct(attribute: str | None = None) -> AfterValidator:
    """Return a validator that refuses a list with two equal items, or with two that are equal in `attribute`."""

    def validate(items: Sequence[Any] | None) -> Sequence[Any] | None:
        seen: dict[Any, int] = {}
        for i, item in enumerate(items or ()):
            key = getattr(item, attribute) if attribute else item
            if key in seen:
                where = {"first": seen[key], "second": i, "key": repr(str(key))}
                raise PydanticCustomError("duplicate", "items {first} and {second} are both {key}; keep one", where)
            seen[key] = i
        return items

    return AfterValidator(validate)
