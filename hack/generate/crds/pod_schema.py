"""Generates the types of Kubernetes' pod template from the OpenAPI document of a running API server.

Run `python hack/generate/crds/pod_schema.py KUBECONFIG` for a new version of Kubernetes; an integration test compares
the committed file with its API server.
"""

import json
import pathlib
import sys
from typing import Any

import kubernetes.client
import kubernetes.config
import requests

Schema = dict[str, Any]

FILE = pathlib.Path(__file__).resolve().parents[3] / "sdk" / "tfdist" / "podspec" / "pod_schema.json"
DOCUMENT = "/openapi/v3/api/v1"
"""Path of the document; unlike /openapi/v2 it has the defaults that belong to a list's keys."""
ROOT = "io.k8s.api.core.v1.PodTemplateSpec"

_NAMED = {"Time": "time", "Quantity": "quantity", "IntOrString": "int-or-string", "FieldsV1": "object"}


def pod_schema(document: Schema) -> Schema:
    """Return the types that a pod template is made of, by their short names, out of an OpenAPI document.

    Raises:
        ValueError: two types have one short name; the longer names are needed then.
    """
    schemas: Schema = document["components"]["schemas"]
    names = _reachable(schemas)
    types = {short: _type(schemas[name]) for short, name in sorted(names.items())}
    _add_defaults_of_keys(types, {short: schemas[name] for short, name in names.items()})
    return {"kubernetes": document["info"]["version"], "types": types}


def text(schema: Schema) -> str:
    """Return the content of the file: one type a line, so that a difference can be read."""
    lines = [f"{json.dumps(name)}: {json.dumps(content)}" for name, content in schema["types"].items()]
    types = ",\n".join(lines)
    return f'{{"kubernetes": {json.dumps(schema["kubernetes"])}, "types": {{\n{types}\n}}}}\n'


def fetch(kubeconfig: str) -> Schema:
    """Return the OpenAPI document of the API server that `kubeconfig` names.

    Raises:
        requests.RequestException: it does not respond, or rejects the request.
    """
    config: Any = kubernetes.client.Configuration()
    load: Any = kubernetes.config.load_kube_config
    load(kubeconfig, client_configuration=config)
    with requests.Session() as session:
        session.trust_env = False  # or REQUESTS_CA_BUNDLE goes before the authority of the kubeconfig
        session.verify, session.cert = config.ssl_ca_cert, (config.cert_file, config.key_file)
        answer = session.get(config.host + DOCUMENT, timeout=30)
        answer.raise_for_status()
        document: Schema = answer.json()
        return document


def _reachable(schemas: Schema) -> dict[str, str]:
    names: dict[str, str] = {}
    todo = [ROOT]
    while todo:
        name = todo.pop()
        short = _short(name)
        if short in _NAMED or names.get(short) == name:
            continue
        if short in names:
            msg = f"both {names[short]} and {name} are called {short}"
            raise ValueError(msg)
        names[short] = name
        todo += _references(schemas[name])
    return names


def _type(schema: Schema) -> Schema:
    fields = {name: _field(field) for name, field in sorted(schema["properties"].items())}
    required = {"required": sorted(schema["required"])} if schema.get("required") else {}
    return {"fields": fields, **required}


def _field(schema: Schema) -> str | Schema:
    """Return a field: the name of its type if that is sufficient, otherwise an object."""
    if schema.get("type") == "array":
        return {"list": _value(schema["items"]), **_enum(schema["items"]), **_patch(schema)}
    if "additionalProperties" in schema:
        return {"map": _value(schema["additionalProperties"])}
    return {"one": _value(schema), **_enum(schema)} if "enum" in schema else _value(schema)


def _enum(schema: Schema) -> Schema:
    return {"enum": sorted(schema["enum"])} if "enum" in schema else {}


def _value(schema: Schema) -> str:
    for target in _targets(schema):
        return _NAMED.get(_short(target), _short(target))
    kind: str = schema["type"]
    return str(schema["format"]) if kind == "integer" else kind


def _patch(schema: Schema) -> Schema:
    """Return the merge strategy and merge key of a list, and the keys that identify its items if different."""
    patch: Schema = {}
    strategy, key = schema.get("x-kubernetes-patch-strategy"), schema.get("x-kubernetes-patch-merge-key")
    if strategy:
        patch["patch"] = strategy
    if key:
        patch["key"] = key
    keys = schema.get("x-kubernetes-list-map-keys", [])
    if keys and keys != [key]:
        patch["keys"] = keys
    return patch


def _add_defaults_of_keys(types: Schema, schemas: Schema) -> None:
    """Add the default of each field that is a list's key: without it two items are not seen to be the same."""
    fields = [field for owner in types.values() for field in owner["fields"].values() if isinstance(field, dict)]
    for field in fields:
        for key in field.get("keys", ()):
            default = schemas[field["list"]]["properties"][key].get("default")
            if default:
                types[field["list"]]["fields"][key]["default"] = default


def _references(schema: Schema) -> list[str]:
    found: list[str] = []
    for field in schema["properties"].values():
        for part in (field, field.get("items", {}), field.get("additionalProperties", {})):
            found += _targets(part)
    return found


def _targets(schema: Schema) -> list[str]:
    nodes = [schema, *schema.get("allOf", ())]
    return [str(node["$ref"]).rsplit("/", 1)[-1] for node in nodes if "$ref" in node]


def _short(name: str) -> str:
    return name.rsplit(".", 1)[-1]


if __name__ == "__main__":
    FILE.write_text(text(pod_schema(fetch(sys.argv[1]))), encoding="utf-8")
