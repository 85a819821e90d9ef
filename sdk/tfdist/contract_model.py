"""Base classes of the contract (`tfdist.contract`), and the bounded types of the values that a replica reports."""

import math
import re
from datetime import datetime
from typing import Annotated, Any, Final, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    field_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticOmit

from tfdist.printable import is_printable, printable


class ContractModel(BaseModel):
    """Camel-case JSON, immutable; unknown fields, as of a newer version, are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True)

    def to_json(self) -> str:
        """Return compact JSON with sorted keys and without absent fields, byte-equal for equal models."""
        import json  # noqa: PLC0415  keeps the import of the constants cheap

        data = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        return json.dumps(data, sort_keys=True, separators=(",", ":"))


class ReportModel(ContractModel):
    """Untrusted input from a replica; an invalid value is dropped alone.

    An optional field whose value is out of bounds counts as absent; a model with an invalid required field is invalid
    as a whole. `to_json` writes only values that a reader accepts.
    """

    @field_validator("*", mode="wrap")
    @classmethod
    def _or_default(cls, value: Any, handler: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
        try:
            return handler(value)
        except ValidationError:
            field = cls.model_fields[str(info.field_name)]
            if field.is_required():
                raise
            return field.get_default(call_default_factory=True)

    def to_json(self) -> str:
        """Return compact JSON as `ContractModel.to_json`, with every value within its bounds.

        Raises:
            ValidationError: a required value is out of bounds.
        """
        return super(ReportModel, self.model_validate(self.model_dump())).to_json()


_MAX_SAFE_INTEGER: Final = 2**53 - 1
"""The largest integer that every JSON reader represents exactly."""
INT32_MAX: Final = 2**31 - 1
_MAX_AMOUNT: Final = 1e15
MAX_METRICS: Final = 64
"""Largest number of metrics in a report; further ones are dropped."""

Count = Annotated[int, Field(ge=0, le=_MAX_SAFE_INTEGER)]
SmallCount = Annotated[int, Field(ge=0, le=INT32_MAX)]
Step = Annotated[int, Field(ge=-1, le=_MAX_SAFE_INTEGER)]
"""A training step, or -1 for none."""
Round = Annotated[int, Field(ge=-1, le=INT32_MAX)]
Code = Annotated[int, Field(ge=-INT32_MAX, le=INT32_MAX)]
Amount = Annotated[float, Field(ge=0, le=_MAX_AMOUNT, allow_inf_nan=False)]
"""A rate or a duration, finite and not negative."""


def _text(longest: int) -> AfterValidator:
    return AfterValidator(lambda text: printable(text[:longest]))


def _line(longest: int) -> AfterValidator:
    def check(text: str) -> str:
        if not text or len(text) > longest or not is_printable(text) or "\n" in text or "\t" in text:
            raise ValueError("text that is empty, too long or has control characters")
        return text

    return AfterValidator(check)


Message = Annotated[str, _text(1024)]
LongMessage = Annotated[str, _text(4096)]
ShortMessage = Annotated[str, _text(256)]
Path = Annotated[str, _line(1024)]
MetricName = Annotated[str, _line(128)]
Reason = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9]{0,63}$")]
"""A reason: one CamelCase word."""
Identity = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9]{0,62}[a-z0-9])?$")]
"""A part of an object name, such as of an Event."""

_RFC3339: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)")


def _time(text: str) -> str:
    if not _RFC3339.fullmatch(text):
        raise ValueError("not an RFC 3339 time")
    datetime.fromisoformat(text)  # raises ValueError for 30 February
    return text


Time = Annotated[str, AfterValidator(_time)]
"""An RFC 3339 time."""

_T = TypeVar("_T")


def _or_omit(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
    try:
        return handler(value)
    except ValidationError:
        raise PydanticOmit from None


Lenient = Annotated[_T, WrapValidator(_or_omit)]
"""An item of a list or map that is dropped if it is invalid."""


def keep_first(number: int) -> BeforeValidator:
    """Return a validator that truncates a list or map to its first items."""

    def cut(value: Any) -> Any:
        if isinstance(value, dict) and len(value) > number:
            return dict(list(value.items())[:number])
        return value[:number] if isinstance(value, list | tuple) else value

    return BeforeValidator(cut)


def keep_last(number: int) -> BeforeValidator:
    """Return a validator that truncates a list to its last items."""
    return BeforeValidator(lambda value: value[-number:] if isinstance(value, list | tuple) else value)


def _finite(metrics: dict[str, float]) -> dict[str, float]:
    return {name: value for name, value in metrics.items() if math.isfinite(value)}


Metrics = Annotated[
    dict[Lenient[MetricName], Lenient[float]],
    keep_first(MAX_METRICS),
    AfterValidator(_finite),
    PlainSerializer(_finite),
]
"""Values by name. A value that is not finite is dropped: neither JSON nor a status can represent it."""
