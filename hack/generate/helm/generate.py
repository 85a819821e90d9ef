"""Generates files of the chart: values, their schema, README, roles, CustomResourceDefinitions, dashboards."""

import json
import pathlib
import sys
import textwrap
from collections.abc import Iterator
from typing import Any

import yaml
from pydantic import BaseModel

from chart_values import ChartValues
from dashboards import DASHBOARDS
from pod_types import definitions
from tfdist.api.crd import KINDS, crd
from tfdist_operator import permissions

HERE = pathlib.Path(__file__).resolve().parent
CHART = HERE.parents[2] / "helm" / "tfdist-operator"
WIDTH = 110


def main(chart: pathlib.Path) -> None:
    """Write every generated file of the chart."""
    for path, text in files().items():
        target = chart / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")


def files() -> dict[str, str]:
    """Return the generated files by their path within the chart."""
    crds = {f"files/{kind.plural}.yaml": "# Generated from sdk/tfdist/api.\n" + _yaml(crd(kind)) for kind in KINDS}
    dashboards = {f"files/dashboards/{name}.json": _json(content) for name, content in DASHBOARDS.items()}
    return {
        "values.yaml": values(),
        "values.schema.json": _json(schema()),
        "README.md": readme(),
        "templates/_rules.tpl": rules(),
        **crds,
        **dashboards,
    }


def values() -> str:
    """Return `values.yaml`, with each description above its value."""
    header = "# Generated from hack/generate/helm/chart_values.py; edit that. Constraints are in values.schema.json.\n"
    return header + "".join(_documented(ChartValues(), indent=0))


def schema() -> dict[str, Any]:
    """Return the JSON schema of the values, with the Kubernetes types that they refer to."""
    result = ChartValues.model_json_schema(by_alias=True)
    result["properties"]["global"] = {
        "type": "object",
        "description": "Values that a parent chart passes to all its subcharts.",
    }
    result["$defs"] |= definitions()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **_referring(result)}


def readme() -> str:
    """Return the chart's README with the table of its values."""
    head = "| value | default | meaning |\n|---|---|---|\n"
    rows = "".join(
        f"| `{path}` | `{json.dumps(default)}` | {text.replace('|', chr(92) + '|')} |\n"
        for path, default, text in _rows(ChartValues(), "")
    )
    return (HERE / "README.template.md").read_text(encoding="utf-8").replace("<!-- values -->\n", head + rows)


def rules() -> str:
    """Return the named templates with the rules of every role."""
    header = "{{/* Generated from operator/tfdist_operator/permissions.py; edit that instead. */ -}}\n"
    named = {
        "controller": permissions.job_rules(),
        "lease": permissions.lease_rules("NAME"),
        "webhook": permissions.webhook_rules("NAME-webhook"),
        "webhookConfiguration": permissions.webhook_configuration_rules("NAME-webhook.NAMESPACE"),
        "view": permissions.user_rules(permissions.VIEW_VERBS),
        "edit": permissions.user_rules(permissions.EDIT_VERBS),
    }
    parts = (
        f'{{{{- define "tfdist.rules.{name}" -}}}}\n{_yaml(content)}{{{{- end }}}}\n' for name, content in named.items()
    )
    text = header + "".join(parts)
    return text.replace("NAMESPACE", "{{ .Release.Namespace }}").replace("NAME", '{{ include "tfdist.name" . }}')


def _documented(level: BaseModel, indent: int) -> Iterator[str]:
    for name, field in type(level).model_fields.items():
        margin, value = " " * indent, getattr(level, name)
        if indent == 0:
            yield "\n"
        for line in textwrap.wrap(field.description or "", WIDTH - indent, break_long_words=False):
            yield f"{margin}# {line}\n"
        if isinstance(value, BaseModel):
            yield f"{margin}{field.alias}:\n"
            yield from _documented(value, indent + 2)
        else:
            yield textwrap.indent(_yaml({field.alias: value}), margin)


def _rows(level: BaseModel, prefix: str) -> Iterator[tuple[str, Any, str]]:
    for name, field in type(level).model_fields.items():
        value, path = getattr(level, name), f"{prefix}{field.alias}"
        if isinstance(value, BaseModel):
            yield from _rows(value, f"{path}.")
        else:
            yield path, value, field.description or ""


def _yaml(content: Any) -> str:
    return yaml.safe_dump(content, sort_keys=False, width=WIDTH, allow_unicode=True)


def _referring(schema: Any) -> Any:
    """Return a schema with a reference for each `kubernetes: TYPE`; pydantic would try to resolve references."""
    if isinstance(schema, list):
        return [_referring(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    result = {key: _referring(value) for key, value in schema.items()}
    if isinstance(name := result.pop("kubernetes", None), str):
        result["$ref"] = f"#/$defs/{name}"
    return result


def _json(content: Any) -> str:
    return json.dumps(content, indent=2) + "\n"


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else CHART)
