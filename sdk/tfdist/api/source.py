"""Source of the code of a program or script that is not in the image."""

from typing import Annotated, Final

from pydantic import Field, StringConstraints

from tfdist.api import patterns
from tfdist.api.base import ApiModel, CrossFieldRule
from tfdist.api.scalars import DnsName

Folder = Annotated[str, StringConstraints(min_length=1, max_length=1024, pattern=patterns.FOLDER)]
"""A relative path within a source."""


Sha256 = Annotated[str, StringConstraints(pattern=patterns.SHA256, max_length=64)]

MAX_PARTS: Final = 16
"""Limit on the ConfigMaps of an archive."""


class ArchiveSource(ApiModel):
    """A packed folder in one or several ConfigMaps of the job's namespace."""

    cross_field_rules = (
        CrossFieldRule(
            "self.parts == 1 || has(self.sha256)",
            "an archive of several parts needs sha256, the hash of all parts together",
            ".sha256",
            lambda self: self.parts == 1 or self.sha256 is not None,
        ),
    )

    name: DnsName
    """Name of the ConfigMap."""
    parts: Annotated[int, Field(ge=1, le=MAX_PARTS)] = 1
    """Number of ConfigMaps. Each has the next bytes of the archive in its key `code.tar.gz`; the second is `NAME-1`,
    the third `NAME-2`, and so on."""
    sha256: Sha256 | None = None
    """SHA-256 of the whole archive, which is compared before it is unpacked. Required with several parts."""


class StoredArchiveSource(ApiModel):
    """A packed folder in an object store."""

    url: Annotated[str, StringConstraints(max_length=2048, pattern=patterns.OBJECT_URL)]
    """URL of the object, `s3://bucket/key` or `gs://bucket/key`."""
    sha256: Sha256
    """SHA-256 of the object, which is compared before it is unpacked."""


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
            "[has(self.archive), has(self.configMap), has(self.git), has(self.object), has(self.persistentVolumeClaim)]"
            ".filter(x, x).size() == 1",
            "exactly one source is required; set one of archive, configMap, git, object and persistentVolumeClaim",
            "",
            lambda self: sum(getattr(self, name) is not None for name in type(self).model_fields) == 1,
        ),
    )

    archive: ArchiveSource | None = None
    """ConfigMap in the job's namespace whose key `code.tar.gz` is a folder, packed to at most 1 MiB, or several of them
    for a larger one; unpacked it has at most 256 MiB. An init container unpacks it. `tfdist submit --code FOLDER`
    creates it."""
    config_map: ObjectSource | None = None
    """ConfigMap in the job's namespace whose keys are files, at most 1 MiB in total."""
    git: GitSource | None = None
    """Git repository, fetched by an init container without credentials."""
    object: StoredArchiveSource | None = None
    """Object that is a packed folder, unpacked at most 1 GiB. An init container fetches it with the variables, volumes
    and ServiceAccount of the job. `tfdist submit --code FOLDER --code-store URL` uploads it."""
    persistent_volume_claim: ClaimSource | None = None
    """PersistentVolumeClaim that all pods can mount, mounted read-only."""
