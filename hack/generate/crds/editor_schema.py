"""The JSON schemas of manifests for editors: completion, descriptions and errors while one is written.

Each is the schema of the CRD in terms of JSON Schema, without the status, and with unknown fields as errors, which
the API server finds by strict field validation. Rules between fields are not in them: `tfdist validate` has them.
"""

import json
from typing import Any, Final

from tfdist.api.crd import ResourceKind, crd
from tfdist.api.patterns import JOB_NAME

Schema = dict[str, Any]

_DRAFT: Final = "http://json-schema.org/draft-07/schema#"  # the draft that yaml-language-server reads
_EXTENSION: Final = "x-kubernetes-"
_OPEN: Final = f"{_EXTENSION}preserve-unknown-fields"
_INT_OR_STRING: Final = f"{_EXTENSION}int-or-string"


def schema(kind: ResourceKind) -> Schema:
    """Return the schema of a kind; equal models give an equal result."""
    root: Schema = crd(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return {
        "$schema": _DRAFT,
        "title": kind.kind,
        "description": root["description"],
        "type": "object",
        "required": ["apiVersion", "kind", "metadata", "spec"],
        "properties": {
            "apiVersion": {"type": "string", "enum": [kind.api_version]},
            "kind": {"type": "string", "enum": [kind.kind]},
            "metadata": _metadata(kind),
            "spec": _converted(root["properties"]["spec"]),
            "status": {"type": "object", "description": "Written by the controller."},
        },
        "additionalProperties": False,
    }


def text(kind: ResourceKind) -> str:
    """Return the schema of a kind as the content of a file."""
    return json.dumps(schema(kind), indent=1, ensure_ascii=False) + "\n"


def _metadata(kind: ResourceKind) -> Schema:
    return {
        "type": "object",
        "description": f"Name, namespace, labels and annotations of the {kind.noun}.",
        "properties": {
            "name": {
                "type": "string",
                "description": f"Name of the {kind.noun}, of which the names of its {kind.named_after}s are made.",
                "pattern": JOB_NAME,
                "maxLength": kind.max_name_length,
            },
            "namespace": {
                "type": "string",
                "description": "Namespace; by default that of the client's context.",
            },
        },
        "additionalProperties": {},
    }


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
