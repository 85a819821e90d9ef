"""What a bad manifest is, and the few ways to make one out of a good one."""

import copy
import itertools
import re
from dataclasses import dataclass
from typing import Any, Final

from support.factories import manifest

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Bad:
    """A manifest with one mistake.

    `says` is how the one problem begins that `tfdist validate` finds, path and message. `server` is what the API
    server's refusal holds; None where schema and CEL cannot see the mistake, so that the controller tells it in the
    status. `mended`: the API server drops the mistake without a word, and the job runs.
    """

    name: str
    manifest: Json
    says: str
    server: str | None = None
    mended: bool = False
    also: tuple[str, ...] = ()
    """Paths of what the mistake makes wrong as well."""

    def __str__(self) -> str:
        return self.name

    @property
    def path(self) -> str:
        """The path of the field that the problem names."""
        return self.says.partition(": ")[0]


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
    """Return a good job, changed by `spec`; `without` names fields to leave out."""
    left_out = spec.pop("without", ())
    made = manifest("bad", "team", **spec)
    del made["metadata"]["uid"]
    for name in left_out:
        made["spec"].pop(name, None)
    return copy.deepcopy(made)


def field(name: str, path: str, value: Any, says: str, server: str | None = None, **spec: Any) -> Bad:
    """Return a manifest that says `value` at `path` of the specification, and is told so at that path."""
    made = job(**spec)
    _set(made["spec"], path, value)
    return Bad(name, made, f"spec.{path}: {says}", server and (server if path in server else _at(path, server)))


def rule(name: str, path: str, message: str, **spec: Any) -> Bad:
    """Return a manifest that breaks a rule between fields, which API server and `tfdist validate` tell alike."""
    return Bad(name, job(**spec), f"spec{path}: {message}", message)


def pod(name: str, path: str, message: str, **spec: Any) -> Bad:
    """Return a manifest with a mistake that only `tfdist validate` and the controller see."""
    return Bad(name, job(**spec), f"spec{path}: {message}")


def container(name: str, path: str, message: str, **fields: Any) -> Bad:
    """Return a manifest whose template has a mistake in the container `tensorflow`."""
    where = f".template.spec.containers[0]{path}"
    return pod(name, where, message, template={"spec": {"containers": [{"name": "tensorflow", **fields}]}})


def _at(path: str, text: str) -> str:
    """Return what the API server says about a field; where it adds a value in between, the path is enough."""
    if text == UNKNOWN:
        return f'unknown field "spec.{path}"'
    return text


def _set(target: Any, path: str, value: Any) -> None:
    """Set what is at `path`, such as `env[0].name`, and make what is missing on the way."""
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
