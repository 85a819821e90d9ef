"""Generates the CustomResourceDefinitions of jobs and sweeps from the models.

Kubernetes requires a structural schema: no references, no null types, complete defaults, and CEL rules with bounded
cost. Pydantic's JSON schema is rewritten accordingly, without its `additionalProperties: false`: the API server rejects
unknown fields by strict field validation.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import BaseModel

from tfdist.api import forbidden_values
from tfdist.api.patterns import JOB_NAME
from tfdist.api.resource import GROUP, KIND, MAX_NAME_LENGTH, PLURAL, VERSION
from tfdist.api.status import TFDistJobStatus
from tfdist.api.sweep import TFDistSweep, TFDistSweepSpec
from tfdist.api.sweep_resource import MAX_SWEEP_NAME, SWEEP_KIND, SWEEP_PLURAL, SWEEP_SHORT_NAME, SWEEP_VERSION
from tfdist.api.sweep_status import TFDistSweepStatus
from tfdist.api.transitions import SWEEP_TRANSITION_RULES, TRANSITION_RULES
from tfdist.api.v1 import TFDistJob, TFDistJobSpec

Schema = dict[str, Any]

_DROPPED: Final = frozenset({"title", "$defs", "additionalProperties", "patternProperties", "propertyNames"})

Column = tuple[str, str, str, int, str]
"""Column of `kubectl get`: name, type, JSON path, priority (1 for `-o wide`), description."""


@dataclass(frozen=True, slots=True)
class ResourceKind:
    """A kind of the API, with all that its CustomResourceDefinition has and its models do not."""

    kind: str
    noun: str
    """The kind in a sentence, such as `job`."""
    plural: str
    version: str
    short_names: tuple[str, ...]
    max_name_length: int
    named_after: str
    """The objects whose names are derived from the resource's name, in the singular."""
    model: type[BaseModel]
    spec: type[BaseModel]
    status: type[BaseModel]
    columns: tuple[Column, ...]
    rules: tuple[Mapping[str, Any], ...] = ()
    """Entries of `x-kubernetes-validations` of the whole resource, in addition to the rule of its name."""
    subresources: Mapping[str, Any] = field(default_factory=dict)
    """Subresources in addition to `status`."""

    @property
    def api_version(self) -> str:
        """Group and version, as in a manifest."""
        return f"{GROUP}/{self.version}"

    @property
    def name_rule(self) -> Schema:
        """The rule of the name, as an entry of `x-kubernetes-validations` of the whole resource."""
        length = self.max_name_length
        return {
            "rule": f"size(self.metadata.name) <= {length} && self.metadata.name.matches('{JOB_NAME}')",
            "message": f"metadata.name must be a DNS label of at most {length} characters that begins with a letter, "
            f"because {self.named_after} names are derived from it",
        }


JOB: Final = ResourceKind(
    kind=KIND,
    noun="job",
    plural=PLURAL,
    version=VERSION,
    short_names=("tfd", "tfdj"),
    max_name_length=MAX_NAME_LENGTH,
    named_after="pod",
    model=TFDistJob,
    spec=TFDistJobSpec,
    status=TFDistJobStatus,
    columns=(
        ("Phase", "string", ".status.phase", 0, "Summary of the conditions"),
        ("Strategy", "string", ".spec.strategy", 0, "How TensorFlow distributes the work"),
        ("Ready", "string", ".status.summary.ready", 0, "Ready and desired replicas"),
        ("Step", "integer", ".status.progress.step", 0, "Completed training steps"),
        ("Done", "string", ".status.summary.progress", 0, "Completed part of training"),
        ("ETA", "string", ".status.summary.eta", 0, "Estimated time until training completes"),
        (
            "Metric",
            "string",
            ".status.summary.metric",
            0,
            "evaluation.metric, of the latest evaluation if there is one",
        ),
        ("Restarts", "string", ".status.summary.restarts", 0, "Number of restarts"),
        ("Age", "date", ".metadata.creationTimestamp", 0, "Age of the job"),
        ("Examples/s", "number", ".status.progress.examplesPerSecond", 1, "Training throughput of the whole gang"),
        ("Checkpoint", "integer", ".status.progress.lastCheckpoint.step", 1, "Step of the last checkpoint"),
        ("Queue", "string", ".status.scheduling.queue", 1, "Queue that the job waits in, or whose quota it uses"),
        ("Message", "string", ".status.summary.message", 1, "Reason of the phase, or what the job waits for"),
    ),
    rules=(*forbidden_values.rules(), *TRANSITION_RULES),
    subresources={
        "scale": {
            "specReplicasPath": ".spec.worker.replicas",
            "statusReplicasPath": ".status.replicas.worker.desired",
            "labelSelectorPath": ".status.selector",
        }
    },
)
SWEEP: Final = ResourceKind(
    kind=SWEEP_KIND,
    noun="sweep",
    plural=SWEEP_PLURAL,
    version=SWEEP_VERSION,
    short_names=(SWEEP_SHORT_NAME,),
    max_name_length=MAX_SWEEP_NAME,
    named_after="job",
    model=TFDistSweep,
    spec=TFDistSweepSpec,
    status=TFDistSweepStatus,
    columns=(
        ("Phase", "string", ".status.phase", 0, "Summary of the conditions"),
        ("Trials", "integer", ".status.trials.total", 0, "Number of trials of the sweep"),
        ("Running", "integer", ".status.trials.running", 0, "Trials that run"),
        ("Stopped", "integer", ".status.trials.stopped", 0, "Trials that were stopped early"),
        ("Best", "number", ".status.best[0].value", 0, "Best value of the metric"),
        ("Best-Job", "string", ".status.best[0].job", 0, "Job of the trial with that value"),
        ("Age", "date", ".metadata.creationTimestamp", 0, "Age of the sweep"),
        ("Succeeded", "integer", ".status.trials.succeeded", 1, "Trials whose jobs succeeded"),
        ("Failed", "integer", ".status.trials.failed", 1, "Trials whose jobs failed"),
    ),
    rules=(*forbidden_values.rules(".spec.template"), *SWEEP_TRANSITION_RULES),
)
KINDS: Final = (JOB, SWEEP)


def crd(kind: ResourceKind = JOB) -> Schema:
    """Return the CustomResourceDefinition of a kind as JSON; equal models give an equal result."""
    version = {
        "name": kind.version,
        "served": True,
        "storage": True,
        "subresources": {"status": {}, **kind.subresources},
        "selectableFields": [{"jsonPath": ".status.phase"}],  # since Kubernetes 1.30; an older one has no such field
        "additionalPrinterColumns": [_column(*column) for column in kind.columns],
        "schema": {"openAPIV3Schema": _root_schema(kind)},
    }
    names: Schema = {"kind": kind.kind, "listKind": f"{kind.kind}List", "plural": kind.plural}
    names |= {"singular": kind.kind.lower(), "shortNames": list(kind.short_names), "categories": ["all"]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{GROUP}"},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]},
    }


def structural(model: type[BaseModel]) -> Schema:
    """Return the structural schema of `model`."""
    schema = model.model_json_schema(by_alias=True)
    return _rewrite(schema, schema.get("$defs", {}))


def _root_schema(kind: ResourceKind) -> Schema:
    return {
        "type": "object",
        "description": (kind.model.__doc__ or "").strip(),
        "required": ["spec"],
        "x-kubernetes-validations": [kind.name_rule, *kind.rules],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": structural(kind.spec),
            "status": structural(kind.status),
        },
    }


def _column(name: str, kind: str, path: str, priority: int, description: str) -> Schema:
    column = {"name": name, "type": kind, "jsonPath": path, "description": description}
    return column | ({"priority": priority} if priority else {})


def _rewrite(node: Schema, defs: dict[str, Schema]) -> Schema:
    """Return a schema node with its reference resolved and nulls removed, recursively."""
    node = _resolved(node, defs)
    result = {k: v for k, v in node.items() if k not in _DROPPED and not (k == "default" and v is None)}
    if "properties" in node:
        result["properties"] = {k: _rewrite(v, defs) for k, v in node["properties"].items()}
        if isinstance(result.get("default"), dict):
            result["default"] = {}  # the API server fills in the defaults of the fields inside
    elif values := _values_of_map(node):
        result["additionalProperties"] = _rewrite(values, defs)
    if "items" in node:
        result["items"] = _rewrite(node["items"], defs)
    if result.pop("const", None) is not None:
        result["enum"] = [node["const"]]
    if "exclusiveMinimum" in result:  # a boolean in OpenAPI 3.0
        result |= {"minimum": result["exclusiveMinimum"], "exclusiveMinimum": True}
    if "description" in result:
        result["description"] = f"{' '.join(result['description'].split())}{default_sentence(result)}"
    return result


def default_sentence(node: Schema) -> str:
    """Return the end of a description, because `kubectl explain` shows no defaults: ` Defaults to 3.`."""
    value = node.get("default")
    if value is None or isinstance(value, dict):
        return ""
    return f" Defaults to {str(value).lower() if isinstance(value, bool) else value}."


def _values_of_map(node: Schema) -> Schema | None:
    """Return the schema of a map's values; a CRD cannot describe its keys, which are validated elsewhere."""
    patterns = list(node.get("patternProperties", {}).values())
    values = patterns[0] if patterns else node.get("additionalProperties")
    return values if isinstance(values, dict) else None


def _resolved(node: Schema, defs: dict[str, Schema]) -> Schema:
    """Return `node` with `$ref`, and `anyOf` of one type and null, resolved."""
    while "$ref" in node or "anyOf" in node:
        rest = {k: v for k, v in node.items() if k not in {"$ref", "anyOf"}}
        if "$ref" in node:
            node = defs[node["$ref"].rsplit("/", 1)[-1]] | rest
            continue
        (option,) = (o for o in node["anyOf"] if o.get("type") != "null")  # a structural schema has no unions
        node = option | rest
    return node
