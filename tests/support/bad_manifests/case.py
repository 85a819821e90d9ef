"""An invalid manifest with the expected error, and functions that derive one from a valid manifest."""

import copy
import itertools
import re
from dataclasses import dataclass
from typing import Any, Final

from support.factories import manifest

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Bad:
    """A manifest with one error.

    `expected`: path of the error, `: `, and a part of its message. `server`: a part of the message of the API server;
    None if schema and CEL do not detect the error, so that the controller reports it in the status. `dropped`: the
    API server removes the invalid field without an error, and the job runs.
    """

    name: str
    manifest: Json
    expected: str
    server: str | None = None
    dropped: bool = False
    also: tuple[str, ...] = ()
    """Paths of further errors that follow from it."""

    def __str__(self) -> str:
        return self.name

    @property
    def path(self) -> str:
        """Path of the invalid field."""
        return self.expected.partition(": ")[0]

    @property
    def message(self) -> str:
        """Expected part of the message."""
        return self.expected.partition(": ")[2]


TYPE: Final = "must be of type"
AT_LEAST: Final = "should be greater than or equal to"
AT_MOST: Final = "should be less than or equal to"
ENUM: Final = "Unsupported value"
PATTERN: Final = "should match"
SHORT: Final = "should be at least 1 chars long"
LONG: Final = "Too long"
MANY: Final = "Too many"
FEW: Final = "should have at least 1 items"
TWICE: Final = "Duplicate value"
ABSENT: Final = "Required value"
UNKNOWN: Final = "unknown field"


def job(**spec: Any) -> Json:
    """Return a valid job, changed by `spec`; `without` names fields to remove."""
    left_out = spec.pop("without", ())
    document = manifest("bad", "team", **spec)
    del document["metadata"]["uid"]
    for name in left_out:
        document["spec"].pop(name, None)
    return copy.deepcopy(document)


def field(name: str, path: str, value: Any, message: str, server: str | None = None, **spec: Any) -> Bad:
    """Return a manifest with an invalid `value` at `path` of the specification."""
    document = job(**spec)
    _set(document["spec"], path, value)
    return Bad(name, document, f"spec.{path}: {message}", server and (server if path in server else _at(path, server)))


def rule(name: str, path: str, message: str, **spec: Any) -> Bad:
    "Return a manifest that violates a rule between fields"
    return Bad(name, job(**spec), f"spec{path}: {message}", message)


def pod(name: str, path: str, message: str, **spec: Any) -> Bad:
    """Return a manifest with an error that only `tfdist validate` and the controller detect."""
    return Bad(name, job(**spec), f"spec{path}: {message}")


def container(name: str, path: str, message: str, **fields: Any) -> Bad:
    """Return a manifest with an error in the container `tensorflow` of its template."""
    where = f".template.spec.containers[0]{path}"
    return pod(name, where, message, template={"spec": {"containers": [{"name": "tensorflow", **fields}]}})


def _at(path: str, text: str) -> str:
    """Return the API server's message about a field."""
    if text == UNKNOWN:
        return f'unknown field "spec.{path}"'
    return text


def _set(target: Any, path: str, value: Any) -> None:
    """Set the value at `path`, such as `env[0].name`; missing parents are created."""
    keys = [int(k) if k.isdigit() else k for k in re.findall(r"[^.\[\]]+", path)]
    for key, following in itertools.pairwise(keys):
        empty: Any = [] if isinstance(following, int) else {}
        if isinstance(target, list):
            if key == len(target):
                target.append(empty)
            target = target[int(key)]
        else:
            target = target.setdefault(key, empty)
    if isinstance(target, list):
        target.append(value)
    else:
        target[keys[-1]] = value
