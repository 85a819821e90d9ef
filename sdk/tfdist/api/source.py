"""Source of the code of a program or script that is not in the image."""

from typing import Annotated

from pydantic import StringConstraints

from tfdist.api import patterns
from tfdist.api.base import ApiModel, CrossFieldRule
from tfdist.api.scalars import DnsName

Folder = Annotated[str, StringConstraints(min_length=1, max_length=1024, pattern=patterns.FOLDER)]
"""A relative path within a source."""


class ArchiveSource(ApiModel):
    """A ConfigMap in the job's namespace with a packed folder."""

    name: DnsName
    """Name of the ConfigMap."""


class ObjectSource(ApiModel):
    """A reference to an object in the job's namespace."""

    name: DnsName
    """Name of the object."""


class ClaimSource(ApiModel):
    """A directory of a PersistentVolumeClaim."""

    claim_name: DnsName
    """Name of the PersistentVolumeClaim."""
    directory: Folder | None = None
    """Relative path to add to `PYTHONPATH`. Defaults to the root of the volume."""


class GitSource(ApiModel):
    """A revision of a Git repository, fetched by an init container."""

    repository: Annotated[str, StringConstraints(max_length=2048, pattern=patterns.REPOSITORY)]
    """URL of the repository (https, ssh, git), or `user@host:path`."""
    revision: Annotated[str, StringConstraints(min_length=1, max_length=255, pattern=patterns.REVISION)] = "HEAD"
    """Commit, tag or branch. Only a full commit hash makes every attempt run the same code."""
    directory: Folder | None = None
    """Relative path to add to `PYTHONPATH`. Defaults to the root of the repository."""


class SourceSpec(ApiModel):
    """Source of the code of a program or script; exactly one of the fields must be set."""

    cross_field_rules = (
        CrossFieldRule(
            "[has(self.archive), has(self.configMap), has(self.git), has(self.persistentVolumeClaim)]"
            ".filter(x, x).size() == 1",
            "exactly one source is required; set one of archive, configMap, git and persistentVolumeClaim",
            "",
            lambda self: sum(getattr(self, name) is not None for name in type(self).model_fields) == 1,
        ),
    )

    archive: ArchiveSource | None = None
    """ConfigMap in the job's namespace whose key `code.tar.gz` is a folder, packed to at most 1 MiB and unpacked to at
    most 64 MiB. An init container unpacks it. `tfdist submit --code FOLDER` creates it."""
    config_map: ObjectSource | None = None
    """ConfigMap in the job's namespace whose keys are files, at most 1 MiB in total."""
    git: GitSource | None = None
    """Git repository, fetched by an init container without credentials."""
    persistent_volume_claim: ClaimSource | None = None
    """PersistentVolumeClaim that all pods can mount, mounted read-only."""
