"""Generates the reference of TFDistJob from the models: type, default, description and bounds of every field.

The text around the tables is in `reference_template.md`; text about what no model describes in `reference_text.yaml`.
"""

import inspect
import pathlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pages import ROOT, anchor, filled, listed, table, texts
from pydantic import BaseModel

from tfdist import contract
from tfdist.api.base import ApiModel
from tfdist.api.crd import JOB, ResourceKind, crd, default_sentence, structural
from tfdist.api.patterns import PATTERN_DESCRIPTIONS, QUANTITY
from tfdist.api.pod_fields import PodFields
from tfdist.api.scalars import INT32_MAX
from tfdist.api.status import ConditionType, JobPhase, TFDistJobStatus
from tfdist.api.transitions import TRANSITION_RULES
from tfdist.api.v1 import TFDistJobSpec

Schema = dict[str, Any]

EXAMPLE: Final = ROOT / "crds" / "samples" / "minimal.yaml"
POD_FIELDS: Final = "Pod fields"
_PORTS: Final = {contract.TF_PORT_NAME: contract.TF_PORT, "tfdist-report": contract.REPORT_PORT}
_TYPES: Final = {"integer": "integer", "number": "number", "boolean": "boolean", "string": "string"}


@dataclass
class Objects:
    """The sections of a tree of models, each model once, where it occurs first.

    `with_defaults`: whether the tables have a column of defaults; the status has none. `elsewhere`: links to
    models that another page describes.
    """

    with_defaults: bool = True
    lines: list[str] = field(default_factory=list)
    titles: dict[type[BaseModel], str] = field(default_factory=dict)
    elsewhere: Mapping[type[BaseModel], str] = field(default_factory=dict)

    def add(self, model: type[BaseModel], schema: Schema, title: str, level: int, path: str, note: str = "") -> None:
        """Add the section of `model`, and the sections of its fields, whose titles begin with `path`."""
        self.titles[model] = title
        own = _own_fields(model)
        inside: dict[type[BaseModel], list[Held]] = {}
        for held in (held for name in own if (held := _held(model, name, schema))):
            inside.setdefault(held.model, []).append(held)
        new = {child: held for child, held in inside.items() if child not in {**self.titles, **self.elsewhere}}
        self.titles |= {child: f"`{path}{held[0].place}`" for child, held in new.items()}
        self.lines += [f"{'#' * level} {title}", "", f"{_introduction(model)}{note}", ""]
        if own:
            self.lines += [*self._table(model, schema, own), ""]
        self.lines += _rules(model)
        for child, (first, *others) in new.items():
            also = " and ".join(f"`{path}{held.place}`" for held in others)
            place = f"{path}{first.place}"
            self.add(
                child, first.schema, f"`{place}`", min(level + 1, 4), f"{place}.", f" Also {also}." if also else ""
            )

    def _table(self, model: type[BaseModel], schema: Schema, names: list[str]) -> Iterator[str]:
        rows = []
        for name in names:
            alias, held = _alias(model, name), _held(model, name, schema)
            node = schema["properties"][alias]
            default = "*required*" if alias in schema.get("required", ()) else _default(node)
            kind = f"[{_type(node)}]({self._target(held.model)})" if held else _type(node)
            rows.append((f"`{alias}`", kind, *([default] if self.with_defaults else []), _meaning(node)))
        return table(("field", "type", *(["default"] if self.with_defaults else []), "description"), rows)

    def _target(self, model: type[BaseModel]) -> str:
        return self.elsewhere.get(model) or f"#{anchor(self.titles[model])}"


@dataclass(frozen=True)
class Held:
    """The model of a field, or of the items of its list or map: its schema, and its path, such as `rules[]`."""

    model: type[BaseModel]
    schema: Schema
    place: str


def page() -> str:
    """Return the content of `docs/reference/api.md`."""
    text_of = texts()
    parts = {
        **identity(JOB, EXAMPLE),
        "spec": _spec(),
        "status": _status(),
        "merging": " ".join(inspect.cleandoc(PodFields.__doc__ or "").partition("\n\n")[2].split()),
        "transitions": transitions(TRANSITION_RULES),
        "phases": listed("phase", {p: text_of["phases"][p] for p in map(str, JobPhase)}),
        "columns": columns(JOB),
        "container": contract.MAIN_CONTAINER,
        "ports": _ports(text_of["ports"]),
        "conditions": listed("condition", {c: text_of["conditions"][c] for c in map(str, ConditionType)}),
        "labels": listed("label", text_of["labels"]),
        "variables": listed("variable", text_of["variables"]),
        "exit_codes": listed("code", {int(c): text_of["exit_codes"][c] for c in contract.ExitCode}),
    }
    return filled("reference_template.md", parts)


def identity(kind: ResourceKind, example: pathlib.Path) -> dict[str, str]:
    """Return the parts of a page that identify the kind, and its example."""
    name = kind.name_rule["message"].replace("metadata.name", "`metadata.name`")
    return {
        "group": crd(kind)["spec"]["group"],
        "version": kind.version,
        "short_names": " and ".join(f"`{short}`" for short in kind.short_names),
        "name_rule": f"The {kind.noun}'s {name}",
        "example": re.sub(r"^#.*\n", "", example.read_text(encoding="utf-8"), flags=re.MULTILINE).strip(),
    }


def _large(bound: float | None) -> float | str | None:
    """Return a bound, a large number in the notation of YAML: `1e15`."""
    return f"{bound:g}".replace("e+", "e") if bound is not None and abs(bound) > INT32_MAX else bound


def transitions(rules: Iterable[Mapping[str, Any]]) -> str:
    """Return the list of the rules of immutable fields."""
    return "\n".join(f"- `{rule['fieldPath'][1:]}`: {rule['message']}" for rule in rules)


def _spec() -> str:
    schema, objects = structural(TFDistJobSpec), Objects()
    objects.titles[PodFields] = POD_FIELDS
    objects.add(PodFields, schema, POD_FIELDS, 3, "")
    short = objects.lines
    objects.lines = []
    objects.add(TFDistJobSpec, schema, "Spec", 2, "spec.")
    return "\n".join([*objects.lines, *short])


def _status() -> str:
    objects = Objects(with_defaults=False)
    objects.add(TFDistJobStatus, structural(TFDistJobStatus), "Status", 2, "status.")
    return "\n".join(objects.lines[2:])


def _own_fields(model: type[BaseModel]) -> list[str]:
    """Return the fields that a section lists; the pod fields have a section of their own."""
    shared = PodFields.model_fields if model is not PodFields and issubclass(model, PodFields) else {}
    return [name for name in model.model_fields if name not in shared]


def _introduction(model: type[BaseModel]) -> str:
    text = " ".join(inspect.cleandoc(model.__doc__ or "").partition("\n\n")[0].split())
    if model is PodFields:
        return f"{text} The job and each role have them; see [how levels merge](#how-levels-merge)."
    if issubclass(model, PodFields):
        return f"{text} It also has all [pod fields](#{anchor(POD_FIELDS)})."
    return f"{text} Any other field is as in Kubernetes." if model.model_config.get("extra") == "allow" else text


def _rules(model: type[BaseModel]) -> list[str]:
    rules = model.cross_field_rules if issubclass(model, ApiModel) else ()
    if not rules:
        return []
    lines = [f"- `{c.path[1:]}`: {c.message}" if c.path else f"- {c.message}" for c in rules]
    return ["Validation rules:", "", *lines, ""]


def _held(model: type[BaseModel], name: str, schema: Schema) -> Held | None:
    found = next(_models_in(model.model_fields[name].annotation), None)
    if found is None:
        return None
    alias = _alias(model, name)
    node: Schema = schema["properties"][alias]
    if "items" in node:
        return Held(found, node["items"], f"{alias}[]")
    if "additionalProperties" in node:
        return Held(found, node["additionalProperties"], f"{alias}{{}}")
    return Held(found, node, alias)


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in getattr(annotation, "__args__", ()):
        yield from _models_in(inner)


def _alias(model: type[BaseModel], name: str) -> str:
    return model.model_fields[name].alias or name


def _type(node: Schema) -> str:
    if node.get("x-kubernetes-int-or-string"):
        return "quantity" if node.get("pattern") == QUANTITY else "integer or string"
    if "items" in node:
        keys = " and ".join(node.get("x-kubernetes-list-map-keys", ()))
        distinct = "distinct " if node.get("x-kubernetes-list-type") == "set" else ""
        return f"list of {distinct}{_plural(node['items'])}" + (f" by {keys}" if keys else "")
    if "additionalProperties" in node:
        return f"map of {_plural(node['additionalProperties'])}"
    return _TYPES.get(node.get("type", ""), "object") if "type" in node else "value"


def _plural(node: Schema) -> str:
    kind = _type(node)
    return "quantities" if kind == "quantity" else f"{kind}s"


def _default(node: Schema) -> str:
    value = default_sentence(node).removeprefix(" Defaults to ").removesuffix(".")
    return f"`{value}`" if value else ""


def _meaning(node: Schema) -> str:
    """Return the description of a field and, in text_of, what the schema asks of its value."""
    text = str(node.get("description", "")).removesuffix(default_sentence(node))
    text = text.replace("docs/trainer.md", "[docs/trainer.md](../trainer.md)")
    return " ".join([text, *(f"{b[0].upper()}{b[1:]}." for b in _bounds(node, text))])


def _bounds(node: Schema, text: str) -> Iterator[str]:
    item: Schema = node.get("items") or node.get("additionalProperties") or {}
    for values in (node.get("enum"), item.get("enum")):
        if values and not all(f"`{value}`" in text for value in values):
            yield "one of " + ", ".join(f"`{value}`" for value in values)
    yield from _numbers(node, "minimum", "maximum", "")
    yield from _numbers(node, "minItems", "maxItems", " entries")
    yield from _numbers(node, "maxProperties", "maxProperties", " entries")
    if not node.get("x-kubernetes-int-or-string"):
        yield from _numbers(node, "minLength", "maxLength", " characters")
        if pattern := node.get("pattern"):
            yield PATTERN_DESCRIPTIONS[pattern]
    for rule in node.get("x-kubernetes-validations", ()) if "properties" not in node else ():
        yield rule["message"].removeprefix("must be ")
    if item.get("type") in _TYPES:
        yield from (f"each {bound}" for bound in _bounds(item, text) if not bound.startswith("one of"))


def _numbers(node: Mapping[str, Any], least: str, most: str, unit: str) -> Iterator[str]:
    low = node.get(least) if least != most else None
    high = None if node.get(most) == INT32_MAX else node.get(most)
    low, high = (_large(bound) for bound in (low, high))
    if least == "minimum" and node.get("exclusiveMinimum"):
        yield f"more than {low}, at most {high}"
    elif high is None:
        if low is not None and node.get("type") in {"integer", "number", "array"}:
            yield f"at least {low}{unit}"
    elif low is None or (low == 1 and unit):
        yield f"at most {high}{unit}"
    else:
        yield f"{low} {'or' if (low, high) == (0, 1) else 'to'} {high}{unit}"


def columns(kind: ResourceKind) -> str:
    """Return the table of the columns of `kubectl get`."""
    rows = [
        (name, f"`{path[1:]}`", description + (" (`-o wide`)" if priority else ""))
        for name, _, path, priority, description in kind.columns
    ]
    return "\n".join(table(("column", "of", "meaning"), rows))


def _ports(meanings: Mapping[str, str]) -> str:
    rows = [(str(_PORTS[name]), f"`{name}`", text) for name, text in meanings.items()]
    return "\n".join(table(("port", "name", "meaning"), rows))
