"""The JSON schema of a manifest for editors: completion, descriptions and errors while a TFDistJob is written.

It is the schema of the CRD in the words of JSON Schema, without the status, and with unknown fields as errors, which
the API server finds by strict field validation. Rules between fields are not in it: `tfdist validate` has them.
"""

import json
from typing import Any, Final

from tfdist.api.crd import crd
from tfdist.api.patterns import JOB_NAME
from tfdist.api.resource import API_VERSION, KIND
from tfdist.api.v1 import MAX_NAME_LENGTH

Schema = dict[str, Any]

_DRAFT: Final = "http://json-schema.org/draft-07/schema#"  # that of yaml-language-server
_EXTENSION: Final = "x-kubernetes-"
_OPEN: Final = f"{_EXTENSION}preserve-unknown-fields"
_INT_OR_STRING: Final = f"{_EXTENSION}int-or-string"
_METADATA: Final[Schema] = {
    "type": "object",
    "description": "Name, namespace, labels and annotations of the job.",
    "properties": {
        "name": {
            "type": "string",
            "description": "Name of the job, of which the names of its pods are made.",
            "pattern": JOB_NAME,
            "maxLength": MAX_NAME_LENGTH,
        },
        "namespace": {"type": "string", "description": "Namespace; by default that of the client's context."},
    },
    "additionalProperties": {},
}


def schema() -> Schema:
    """Return the schema; equal models give an equal result."""
    root: Schema = crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return {
        "$schema": _DRAFT,
        "title": KIND,
        "description": root["description"],
        "type": "object",
        "required": ["apiVersion", "kind", "metadata", "spec"],
        "properties": {
            "apiVersion": {"type": "string", "enum": [API_VERSION]},
            "kind": {"type": "string", "enum": [KIND]},
            "metadata": _METADATA,
            "spec": _converted(root["properties"]["spec"]),
            "status": {"type": "object", "description": "Written by the controller."},
        },
        "additionalProperties": False,
    }


def text() -> str:
    """Return the schema as the content of a file."""
    return json.dumps(schema(), indent=1, ensure_ascii=False) + "\n"


def _converted(node: Schema) -> Schema:
    """Return a node of a structural schema as JSON Schema, recursively."""
    result = {key: value for key, value in node.items() if not key.startswith(_EXTENSION)}
    if node.get(_INT_OR_STRING):
        result["anyOf"] = [{"type": "integer"}, {"type": "string"}]
    if result.get("exclusiveMinimum") is True:  # a boolean in OpenAPI 3.0
        result["exclusiveMinimum"] = result.pop("minimum")
    if "properties" in node:
        result["properties"] = {name: _converted(field) for name, field in node["properties"].items()}
        result["additionalProperties"] = False
    elif isinstance(node.get("additionalProperties"), dict):
        result["additionalProperties"] = _converted(node["additionalProperties"])
    if node.get(_OPEN):
        result["additionalProperties"] = {}
    if "items" in node:
        result["items"] = _converted(node["items"])
    return result
