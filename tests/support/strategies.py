"""Manifests made by chance from the schema of the CRD: a valid job, some changed fields, and errors.

Chance alone seldom makes a valid job, for rules tie the fields together; so it begins with one that is valid, sets
fields to values that their own schema allows, and only then spoils something.
"""

import copy
import itertools
import re
from collections.abc import Iterator
from typing import Any, Final

from hypothesis import strategies as st

from tfdist.api import patterns
from tfdist.api.crd import structural
from tfdist.api.v1 import TFDistJobSpec

Json = dict[str, Any]
Place = tuple[str | int, ...]

_DATA: Final[Json] = {"train": "/data/train.csv", "eval": "/data/eval.csv"}
_TRAINING: Final[Json] = {"program": "image_classification", "config": {"data": _DATA}}
_CHECKPOINT: Final[Json] = {"directory": "/ckpt/{name}", "volume": {"persistentVolumeClaim": {"claimName": "ckpt"}}}
BASES: Final[tuple[Json, ...]] = (
    {"training": _TRAINING},
    {"worker": {"replicas": 2}, "training": _TRAINING},
    {"worker": {"replicas": 2}, "training": _TRAINING, "checkpoint": _CHECKPOINT},
    {"chief": {}, "worker": {}, "image": "team/train:1", "command": ["python", "-m", "team.train"]},
    {"strategy": "ParameterServer", "chief": {}, "ps": {}, "worker": {"replicas": 2}, "training": _TRAINING},
    {"strategy": "Independent", "chief": {}, "worker": {"replicas": 2}, "training": {"script": "/code/search.py"}},
    {"strategy": "Mirrored", "worker": {"resources": {"limits": {"nvidia.com/gpu": 2}}}, "training": _TRAINING},
    {"task": "Evaluate", "checkpoint": _CHECKPOINT, "training": _TRAINING},
    {"worker": {"replicas": 2}, "evaluation": {"mode": "Both"}, "checkpoint": _CHECKPOINT, "training": _TRAINING},
)

VOLUMES: Final[tuple[Json, ...]] = (
    {"emptyDir": {}},
    {"hostPath": {"path": "/srv"}},
    {"persistentVolumeClaim": {"claimName": "data"}},
    {"configMap": {"name": "code"}},
    {"secret": {"secretName": "key"}},
)
SOURCES: Final[tuple[Json, ...]] = (
    {"fieldRef": {"fieldPath": "metadata.name"}},
    {"secretKeyRef": {"name": "s", "key": "k"}},
    {"resourceFieldRef": {"resource": "limits.cpu"}},
)
PODS: Final[tuple[Json, ...]] = (
    {},
    {"nodeSelector": {"disk": "fast"}, "terminationGracePeriodSeconds": 60},
    {"tolerations": [{"key": "gpu", "operator": "Exists"}]},
    {"containers": [{"name": "tensorflow", "ports": [{"name": "tfdist-port", "containerPort": 3333}]}]},
    {"containers": [{"name": "log", "image": "log:1", "env": [{"name": "A", "value": "1"}]}]},
    {"initContainers": [{"name": "fetch", "image": "fetch:1", "resources": {"limits": {"cpu": "1"}}}]},
    {"securityContext": {"runAsUser": 1000}, "priorityClassName": "high"},
)
_SAMPLES: Final = {
    patterns.QUANTITY: ("1", "500m", "2Gi", "1e3", "0", ".5", "9E", "1e99"),
    patterns.DIRECTORY: ("/ckpt", "/ckpt/{name}", "/a/{uid}/b", "gs://bucket/ckpt"),
    patterns.REPOSITORY: ("https://host/team/code.git", "git@host:team/code"),
    patterns.MOUNT_PATH: ("/data", "/ckpt", "/tmp", "relative", "/"),
}
TEXT: Final = st.text(st.characters(codec="utf-8"), max_size=12)
ODD: Final = st.sampled_from(
    ["\u2028", "\u00a0", "e\u0301", "\U0001f600", "\u202eabc", "\x00", "\x7f", "a\nb", "Ⅷ", "٣"]
)
KEYS: Final = st.sampled_from(["name", "replicas", "spec", "limits", "emptyDir", "$patch", "tfdist-x", ""]) | TEXT
SCALARS: Final = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | ODD
    | TEXT
)
ANY_JSON: Final[st.SearchStrategy[Any]] = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=8
)


def _places(schema: Json, place: Place = ()) -> Iterator[tuple[Place, Json]]:
    """Yield every field, the first item of every list included."""
    for name, field in schema.get("properties", {}).items():
        yield (*place, name), field
        yield from _places(field, (*place, name))
        if field.get("type") == "array":
            yield (*place, name, 0), field["items"]
            yield from _places(field["items"], (*place, name, 0))


_SCHEMA: Final = structural(TFDistJobSpec)
PLACES: Final = tuple(_places(_SCHEMA))
_FIRST: Final = tuple(sorted(_SCHEMA["properties"]))


def values(schema: Json, depth: int = 3) -> st.SearchStrategy[Any]:
    """Return what the schema of a field allows; rules between fields may still reject it."""
    if schema.get("enum"):
        return st.sampled_from(schema["enum"])
    if schema.get("x-kubernetes-int-or-string"):
        return st.integers(1, 9) | (_texts(schema) if "pattern" in schema else st.just("Auto"))
    kind = schema.get("type")
    if kind == "integer":
        return st.integers(schema["minimum"], schema["maximum"]) | st.integers(schema["minimum"], schema["minimum"] + 3)
    if kind == "array":
        few = st.lists(values(schema["items"], depth - 1), min_size=schema.get("minItems", 0), max_size=3)
        return few | few.map(_distinct)
    if kind == "object":
        return _objects(schema, depth)
    if kind == "boolean":
        return st.booleans()
    return st.floats(1.01, 10) | st.integers(2, 10) if kind == "number" else _texts(schema)


def _texts(schema: Json) -> st.SearchStrategy[str]:
    pattern = schema.get("pattern")
    if pattern is None:
        least, most = schema.get("minLength", 0), schema.get("maxLength", 100)
        return st.sampled_from(["a", "data", "x" * most]) | ODD | st.text(min_size=least, max_size=12)
    samples = _SAMPLES.get(pattern, ("a",))
    return st.sampled_from(samples) | st.from_regex(re.compile(pattern)).map(_short) | st.just(samples[0] + "\n")


def _short(text: str) -> str:
    return text[:40]


def _objects(schema: Json, depth: int) -> st.SearchStrategy[Any]:
    fields = schema.get("properties", {})
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return _open_objects(fields, depth)
    if not fields:
        inner = values(schema.get("additionalProperties", {"type": "string"}), depth - 1)
        keys = st.sampled_from(["cpu", "memory", "nvidia.com/gpu", "example.com/a", "a b", ""])
        return st.dictionaries(keys, inner, max_size=3)
    required = {name: values(fields[name], depth - 1) for name in schema.get("required", ())}
    free = sorted(fields.keys() - required.keys()) if depth > 0 else []
    chosen = st.lists(st.sampled_from(free), max_size=2, unique=True) if free else st.just([])
    return chosen.flatmap(
        lambda names: st.fixed_dictionaries(required | {name: values(fields[name], depth - 1) for name in names})
    )


def _open_objects(fields: Json, depth: int) -> st.SearchStrategy[Any]:
    """Return objects with Kubernetes' field names, mostly well-formed."""
    optional = {name: values(field, depth - 1) for name, field in fields.items()}
    if "containers" in fields:
        return st.sampled_from(PODS)
    content = st.sampled_from((*VOLUMES, *SOURCES, {"configMapRef": {"name": "m"}})) | st.dictionaries(
        KEYS, ANY_JSON, max_size=2
    )
    return st.tuples(content, st.fixed_dictionaries(optional)).map(lambda both: {**both[0], **both[1]})


def _distinct(items: list[Any]) -> list[Any]:
    keys = [next(iter(item.values()), None) if isinstance(item, dict) else item for item in items]
    return [item for i, item in enumerate(items) if keys[i] not in keys[:i]]


@st.composite
def specs(draw: st.DrawFn) -> Json:
    """A specification of which every field by itself is about right."""
    spec = copy.deepcopy(draw(st.sampled_from(BASES)))
    for name in draw(st.lists(st.sampled_from(_FIRST), max_size=2)):
        place, schema = draw(st.sampled_from([p for p in PLACES if p[0][0] == name]))
        put(spec, place, draw(values(schema)))
    return spec


@st.composite
def spoiled_specs(draw: st.DrawFn) -> Json:
    """A specification with one or two errors: another type, null, an unknown field, something missing."""
    spec = draw(specs())
    for _ in range(draw(st.integers(1, 2))):
        place, _ = draw(st.sampled_from(PLACES))
        where = (*place[:-1], draw(KEYS)) if isinstance(place[-1], str) and draw(st.booleans()) else place
        put(spec, where, draw(ANY_JSON))
    return spec


def put(target: Json, place: Place, value: Any) -> None:
    """Set what is at a place; objects and lists are made on the way, over whatever is there instead."""
    here: Any = target
    for key, following in itertools.pairwise(place):
        container: type = list if isinstance(following, int) else dict
        if not isinstance(_at(here, key), container):
            _set(here, key, container())
        here = _at(here, key)
    _set(here, place[-1], value)


def _at(parent: Any, key: Any) -> Any:
    if isinstance(parent, list):
        return parent[0] if parent else None
    return parent.get(key)


def _set(parent: Any, key: Any, value: Any) -> None:
    if isinstance(parent, list):
        parent[:1] = [value]
    else:
        parent[key] = value


def job(name: str, namespace: str, spec: Json) -> Json:
    """Return the manifest of a job."""
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "tfdist.dev/v1", "kind": "TFDistJob", "metadata": metadata, "spec": spec}
