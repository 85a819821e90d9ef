"""The docstrings of a model's fields, read from its source when a schema is generated.

Pydantic's `use_attribute_docstrings` reads the source of each model when it is imported, a fifth of the time of the
import, in every process; only schemas contain descriptions.
"""

import ast
import functools
import inspect
import sys
from itertools import pairwise


def attribute_docstrings(model: type) -> dict[str, str]:
    """Return the docstrings below the fields of a class, its own and the inherited ones, by the name of the field."""
    found: dict[str, str] = {}
    for each in reversed(model.__mro__):
        if "__annotations__" in each.__dict__:
            found |= _own(each)
    return found


def _own(model: type) -> dict[str, str]:
    definition = _classes(model.__module__).get(model.__name__)
    return {
        field.target.id: inspect.cleandoc(text.value.value)
        for field, text in pairwise(definition.body if definition else ())
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) and isinstance(text.value.value, str)
    }


@functools.cache
def _classes(module: str) -> dict[str, ast.ClassDef]:
    """Return the classes of a module by name; none of a module without a file, as in an interpreter."""
    try:
        source = inspect.getsource(sys.modules[module])
    except (KeyError, OSError, TypeError):
        return {}
    return {node.name: node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)}
