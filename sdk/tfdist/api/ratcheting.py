"""Rules that an earlier release did not have, ratcheted so that stored jobs stay writable.

The API server validates the whole object on every write, including status and finalizers. A job that an earlier release
accepted must stay writable, so each rule has two entries: one for new objects, which have no status yet, and one for
updates, which may keep an invalid value and not add one. With `optionalOldSelf` of CEL one entry would do, but it is
not available in every supported version of Kubernetes (1.29 rejects the definition).
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tfdist.api.base import ApiModel
from tfdist.api.features import PLANNED


def ratcheting(
    path: str, message: str, holds: Callable[[str], str], within: str = ""
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the two rules, as entries of `x-kubernetes-validations` of the whole resource.

    Args:
        path: the invalid field, below `spec` of the job.
        message: the fact and the remedy.
        holds: gets the job in CEL, such as `self` or `oldSelf`, and returns in CEL whether it meets the rule.
        within: path of the job in the resource, such as `.spec.template`; empty if the resource is the job.
    """
    entry = {"message": message, "fieldPath": f"{within}.spec.{path}", "reason": "FieldValueForbidden"}
    new, old = holds(f"self{within}"), holds(f"oldSelf{within}")
    created = {"rule": f"has(self.status) || {new}"} | entry
    updated = {"rule": f"{new} || !({old})"} | entry
    return created, updated


@dataclass(frozen=True, slots=True)
class Stricter:
    """A rule for the string in one field that an earlier release did not have."""

    path: str
    """Path of the field below `spec`."""
    pattern: str
    """Pattern that the string must not match, in a syntax common to RE2 and Python."""
    message: str

    def is_broken(self, spec: ApiModel) -> bool:
        """Return whether a well-formed specification violates the rule."""
        value: Any = spec
        for name in self.path.split("."):
            fields = type(value).model_fields if value is not None else {}
            value = next((getattr(value, key) for key, field in fields.items() if field.alias == name), None)
        return value is not None and re.search(self.pattern, value) is not None

    def cel(self, root: str) -> str:
        """Return in CEL whether the resource `root` (`self` or `oldSelf`) meets the rule."""
        parts = self.path.split(".")
        absent = [f"!has({root}.spec.{'.'.join(parts[: end + 1])})" for end in range(len(parts))]
        return " || ".join([*absent, f"!{root}.spec.{self.path}.matches(r'{self.pattern}')"])


_UP: Final = r"(^|/)\.\.(/|$)"
_UP_IN_SOURCE: Final = r"^([^/].*/)?\.\.(/|$)"
_OTHER_SCHEME: Final = "^([^/gs]|g[^s]|gs[^:]|s[^3]|s3[^:]|(gs|s3)://(/|$))"
"""Of a path or URL: another scheme than `gs` or `s3`, or no bucket. RE2 has no negative lookahead."""
_WITH_USER: Final = "^[^/]+://[^/]*@"
_CREDENTIALS: Final = "https?://[^/]*@|[^/]+://[^/]*:[^/]*@"
"""In `ssh` a user alone is none. Credentials would be readable by everyone who can read the job."""
_INSIDE: Final = "must be a path within the source, without .."
STRICTER: Final = (
    Stricter(
        "training.source.git.repository",
        f"^(file:|-|{_CREDENTIALS})",
        "must be the URL of a server (https, ssh, git) or user@host:path, without credentials; send other code by "
        "tfdist submit --code",
    ),
    Stricter("training.script", _UP_IN_SOURCE, _INSIDE),
    Stricter("training.source.git.directory", _UP, _INSIDE),
    Stricter("training.source.persistentVolumeClaim.directory", _UP, _INSIDE),
    Stricter(
        "checkpoint.directory",
        f"{_OTHER_SCHEME}|{_WITH_USER}",
        "must be an absolute path, s3://bucket/key or gs://bucket/key, without credentials",
    ),
)
"""Applied by `tfdist.validation` to every job, and by the API server to new values."""
_ENV: Final = "must be a path or a URL without credentials; set them as variables from a Secret (env)"
ONLY_VALIDATED: Final = tuple(
    Stricter(path, _WITH_USER, _ENV) for path in ("training.export.directory", "tensorBoard.logDirectory")
)
"""Applied by `tfdist.validation` to every job, and not by the API server: the definition of sweeps has no room left."""


def _rules(within: str) -> tuple[dict[str, Any], ...]:
    each = (*PLANNED, *STRICTER)
    return tuple(rule for one in each for rule in ratcheting(one.path, one.message, one.cel, within))


RATCHETING_RULES: Final = _rules("")
"""Entries of `x-kubernetes-validations` of a job."""
TEMPLATE_RATCHETING_RULES: Final = _rules(".spec.template")
"""The same rules for the job in the template of a sweep: entries of `x-kubernetes-validations` of the sweep."""
