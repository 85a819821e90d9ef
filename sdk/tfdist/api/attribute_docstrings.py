"""The docstrings of a model's fields, read from its source when a schema is generated.

Pydantic's `use_attribute_docstrings` reads the source of each model when it is imported, a fifth of the time of the
import, in every process; only the generated schemas contain descriptions.
"""

import ast
import inspect
import textwrap
from itertools import pairwise


def attribute_docstrings(model: type) -> dict[str, str]:
    """Return the docstrings below the fields of a class, its own and the inherited ones, by the name of the field."""
    found: dict[str, str] = {}
    for each in reversed(model.__mro__):
        if "__annotations__" in each.__dict__:
            found |= _own(each)
    return found


def _own(model: type) -> dict[str, str]:
    try:
        source = inspect.getsource(model)
    except (OSError, TypeError):  # a class without a file, as in an interpreter
        return {}
    (definition,) = ast.parse(textwrap.dedent(source)).body
    assert isinstance(definition, ast.ClassDef)  # noqa: S101  it is the source of a class
    return {
        field.target.id: inspect.cleandoc(text.value.value)
        for field, text in pairwise(definition.body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) and isinstance(text.value.value, str)
    }
