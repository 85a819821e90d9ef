"""Values that no job may have: planned features, and strings that the pattern of a field accepts."""

import re
from dataclasses import dataclass
from typing import Any, Final

from tfdist.api.base import ApiModel
from tfdist.api.features import PLANNED


@dataclass(frozen=True, slots=True)
class ForbiddenText:
    """Strings that one field may not have."""

    path: str
    """Path of the field below `spec`."""
    pattern: str
    """Pattern of the strings, in a syntax common to RE2 and Python."""
    message: str

    def is_used(self, spec: ApiModel) -> bool:
        """Return whether a well-formed specification has such a string."""
        value: Any = spec
        for name in self.path.split("."):
            fields = type(value).model_fields if value is not None else {}
            value = next((getattr(value, key) for key, field in fields.items() if field.alias == name), None)
        return value is not None and re.search(self.pattern, value) is not None

    def cel(self, job: str) -> str:
        """Return in CEL whether the job, such as `self`, does not have one."""
        parts = self.path.split(".")
        absent = [f"!has({job}.spec.{'.'.join(parts[: end + 1])})" for end in range(len(parts))]
        return " || ".join([*absent, f"!{job}.spec.{self.path}.matches(r'{self.pattern}')"])


_UP: Final = r"(^|/)\.\.(/|$)"
_UP_IN_SOURCE: Final = r"^([^/].*/)?\.\.(/|$)"
_OTHER_SCHEME: Final = "^([^/gs]|g[^s]|gs[^:]|s[^3]|s3[^:]|(gs|s3)://(/|$))"
"""Of a path or URL: another scheme than `gs` or `s3`, or no bucket. RE2 has no negative lookahead."""
_WITH_USER: Final = "^[^/]+://[^/]*@"
_CREDENTIALS: Final = "https?://[^/]*@|[^/]+://[^/]*:[^/]*@"
"""In `ssh` a user alone is none. Credentials would be readable by everyone who can read the job."""
_INSIDE: Final = "must be a path within the source, without .."
FORBIDDEN: Final = (
    ForbiddenText(
        "training.source.git.repository",
        f"^(file:|-|{_CREDENTIALS})",
        "must be the URL of a server (https, ssh, git) or user@host:path, without credentials; send other code by "
        "tfdist submit --code",
    ),
    ForbiddenText("training.script", _UP_IN_SOURCE, _INSIDE),
    ForbiddenText("training.requirements", _UP, _INSIDE),
    ForbiddenText("training.source.git.directory", _UP, _INSIDE),
    ForbiddenText("training.source.persistentVolumeClaim.directory", _UP, _INSIDE),
    ForbiddenText(
        "checkpoint.directory",
        f"{_OTHER_SCHEME}|{_WITH_USER}",
        "must be an absolute path, s3://bucket/key or gs://bucket/key, without credentials",
    ),
)
"""Rejected by `tfdist.validation` and by the API server."""
_ENV: Final = "must be a path or a URL without credentials; set them as variables from a Secret (env)"
ONLY_VALIDATED: Final = tuple(
    ForbiddenText(path, _WITH_USER, _ENV) for path in ("training.export.directory", "tensorBoard.logDirectory")
)
"""Rejected by `tfdist.validation` alone, so that the definition of sweeps stays small."""


def rules(within: str = "") -> tuple[dict[str, Any], ...]:
    """Return the rules, as entries of `x-kubernetes-validations` of the whole resource.

    Args:
        within: path of the job in the resource, such as `.spec.template`; empty if the resource is the job.
    """
    return tuple(
        {
            "rule": each.cel(f"self{within}"),
            "message": each.message,
            "fieldPath": f"{within}.spec.{each.path}",
            "reason": "FieldValueForbidden",
        }
        for each in (*PLANNED, *FORBIDDEN)
    )
