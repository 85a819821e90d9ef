"""The base of configuration models: strict fields, rules between fields, and errors of unions."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

RULE: Final = "rule"
"""Type of pydantic's error about a violated rule; its text is the whole message."""
_UNION: Final = "union"
MAX_ERRORS: Final = 1001
"""Errors of one object or union that are reported: more than `tfdist.validation` counts."""

Location = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class BrokenRule:
    """A violated rule between fields: the location of the field to change, in camel case, and the message."""

    location: Location
    message: str


class StrictModel(BaseModel):
    """Immutable; camel-case names; an unknown field is an error, because it is probably misspelled."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True, allow_inf_nan=False
    )

    def _broken_rules(self) -> Iterator[BrokenRule]:
        """Yield the violated rules between the fields of this object; a subclass adds its own."""
        yield from ()

    @model_validator(mode="after")
    def _follows_rules(self) -> Self:
        if broken := list(itertools.islice(self._broken_rules(), MAX_ERRORS)):
            errors = [_line_error(_custom_error(RULE, rule.message), rule.location, None) for rule in broken]
            raise ValidationError.from_exception_data(type(self).__name__, errors)
        return self


def exclusive(*names: str) -> BrokenRule:
    """Return the violated rule that only one of the fields may be set; the last one is to be removed."""
    return BrokenRule(names[-1:], f"{' and '.join(names)} are mutually exclusive; keep one of them")


LIST: Final = "list"
MAP: Final = "map"
INTEGER: Final = "integer"
"""Tags of the alternatives of a union; see `alternatives`."""

_TYPES: Final = {list: LIST, tuple: LIST, dict: MAP, int: INTEGER}


def alternatives(rule: str) -> WrapValidator:
    """Return the validator of a union whose members have tags.

    An error is about the member of the type of the value, such as an item of the list, without the errors of the other
    members. With a value of another type it is `rule`.
    """

    def validate(value: Any, validate_union: ValidatorFunctionWrapHandler) -> Any:
        try:
            return validate_union(value)
        except ValidationError as error:
            tag = _TYPES.get(type(value))
            of_tag = (each for each in error.errors(include_url=False) if each["loc"][:1] == (tag,))
            chosen = list(map(_member_error, itertools.islice(of_tag, MAX_ERRORS)))
            if not chosen:
                raise union_error(rule) from None
            raise ValidationError.from_exception_data(error.title, chosen) from None

    return WrapValidator(validate)


def union_error(rule: str) -> PydanticCustomError:
    """Return the error of a value that is of no type of a union."""
    return _custom_error(_UNION, rule)


def _custom_error(kind: str, text: str) -> PydanticCustomError:
    return PydanticCustomError(kind, "{text}", {"text": text})


def _member_error(error: ErrorDetails) -> InitErrorDetails:
    """Return an error of a union without the tag in its location."""
    custom = error["type"] in {RULE, _UNION}
    kind = _custom_error(error["type"], error["msg"]) if custom else error["type"]
    return _line_error(kind, error["loc"][1:], error["input"], error.get("ctx", {}))


def _line_error(
    kind: str | PydanticCustomError, location: Sequence[str | int], value: Any, context: dict[str, Any] | None = None
) -> InitErrorDetails:
    return InitErrorDetails(type=kind, loc=tuple(location), input=value, ctx=context or {})
