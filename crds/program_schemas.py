"""Generates the JSON schemas of the bundled programs' configuration for the SDK, which cannot import the trainer."""

import json
from typing import Any, Final

from trainer_reference import PROGRAMS

_MAPS: Final = frozenset({"$defs", "properties"})
_DROPPED: Final = frozenset({"title", "description", "default"})


def text() -> str:
    """Return the content of `sdk/tfdist/validation/programs.json`."""
    schemas = {name: _bare(model.model_json_schema(by_alias=True)) for name, model in sorted(PROGRAMS.items())}
    return json.dumps(schemas, indent=1, sort_keys=True) + "\n"


def _bare(node: Any, *, of_fields: bool = False) -> Any:
    """Return a schema without the keywords that validation does not need; `of_fields`: the keys are names of fields."""
    if isinstance(node, list):
        return [_bare(item) for item in node]
    if not isinstance(node, dict):
        return node
    kept = {key: value for key, value in node.items() if of_fields or key not in _DROPPED}
    return {
        key: _bare(value, of_fields=key in {"properties", "$defs"} and not of_fields) for key, value in kept.items()
    }
