"""Regular expressions in linear time, for patterns and texts from users.

Rust's `regex` crate, which pydantic contains, has nearly RE2's syntax and its guarantees: no backreferences and no
assertions about context, hence no pattern with exponential cost, and a limit on the size of a compiled pattern.
`google-re2` would be a second native dependency of every image that has `tfdist`, including users' images.
"""

from functools import lru_cache

from pydantic import ValidationError
from pydantic_core import SchemaError, SchemaValidator, core_schema


def syntax_error(pattern: str) -> str | None:
    """Return the reason why a pattern is not a valid regular expression, in one line, or None if it is valid."""
    try:
        _compiled(pattern)
    except SchemaError as error:
        return str(error).strip().splitlines()[-1].removeprefix("error: ")
    return None


def search(pattern: str, text: str) -> bool:
    """Return whether a valid pattern matches anywhere in a text, in time linear in both."""
    try:
        _compiled(pattern).validate_python(text)
    except ValidationError:
        return False
    return True


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> SchemaValidator:
    return SchemaValidator(core_schema.str_schema(pattern=pattern))
