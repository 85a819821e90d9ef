"""The directories that a job writes, and their places on storage, which are comparable between jobs of a namespace."""

import json
import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, partial
from typing import Any, Final

from tfdist.api.export import ExportedModel
from tfdist.api.v1 import TFDistJob
from tfdist.contract import Role, Task
from tfdist.render.gang import training_gang
from tfdist.render.replica_job import expand_placeholders, export_directory
from tfdist.render.template import main_container, role_template

_NOT_SHARED: Final = frozenset({"emptyDir", "ephemeral", "configMap", "secret", "projected", "downwardAPI", "image"})
"""Volumes of one pod, or without write access."""


class DirectoryField(StrEnum):
    """The fields of directories that one job at a time writes."""

    CHECKPOINT = "checkpoint.directory"
    EXPORT = "training.export.directory"


@dataclass(frozen=True, slots=True)
class StorageLocation:
    """A volume source as JSON and a path below it; for a URL no volume."""

    volume: str
    path: str

    @property
    def storage(self) -> str:
        """Text for messages: the claim or the kind of volume; "" for a URL."""
        source = json.loads(self.volume or "{}")
        claim = source.get("persistentVolumeClaim", {}).get("claimName")
        return f"claim {claim}" if claim else f"volume {next(iter(source), '')}" if source else ""


@dataclass(frozen=True, slots=True)
class WrittenDirectory:
    """A directory that a job writes: its field, which may be unset, its path in the pods or URL, and its location."""

    field: DirectoryField
    directory: str
    location: StorageLocation

    @property
    def place(self) -> str:
        """Text for messages: the directory, and the volume that it is on."""
        return f"{self.directory} on the {self.location.storage}" if self.location.storage else self.directory


def written_directories(job: TFDistJob) -> tuple[WrittenDirectory, ...]:
    """Return the directories of checkpoints and exports, each location once; without those on a volume of each pod.

    Two directories below different mounts of one volume are the same location, if their paths on the volume are.
    """
    template_of = cache(partial(role_template, job))
    found: dict[StorageLocation, WrittenDirectory] = {}
    for field, directory, role in _directories(job):
        if location := _url_location(directory) or _volume_location(template_of(role), directory):
            found.setdefault(location, WrittenDirectory(field, directory, location))
    return tuple(found.values())


def _directories(job: TFDistJob) -> Iterator[tuple[DirectoryField, str, Role]]:
    """Yield the directories of a job that trains, each with a role that writes there."""
    spec = job.spec
    if spec.checkpoint is None or spec.task is not Task.TRAIN:  # export requires checkpoints
        return
    leader = training_gang(job).leader.role
    yield DirectoryField.CHECKPOINT, expand_placeholders(job, spec.checkpoint.directory), leader
    export, directory = spec.training.export if spec.training else None, export_directory(job)
    for model in export.which if export and directory else ():
        by_evaluator = model is ExportedModel.BEST and spec.runs_program
        yield DirectoryField.EXPORT, str(directory), Role.EVALUATOR if by_evaluator else leader


def _url_location(directory: str) -> StorageLocation | None:
    """Return the location of a URL; None for a path."""
    scheme, separator, path = directory.partition("://")
    if directory.startswith("/"):
        return None
    return StorageLocation("", f"{scheme}{separator}{posixpath.normpath(path)}")


def _volume_location(template: Mapping[str, Any], directory: str) -> StorageLocation | None:
    """Return the location of a path in the pods of a template; None if it is not on a volume that pods share."""
    mount = _mount_of(template, directory)
    # When in doubt the job runs; the trainer detects another writer by its heartbeat (ADR 31).
    if mount is None or "subPathExpr" in mount:  # the path on the volume is known to the kubelet only
        return None
    source = _source(template, str(mount["name"]))
    if not source or _NOT_SHARED & source.keys():
        return None
    below = posixpath.relpath(directory, mount["mountPath"])
    path = posixpath.normpath(posixpath.join(mount.get("subPath", ""), below))
    return StorageLocation(json.dumps(source, sort_keys=True), path)


def _mount_of(template: Mapping[str, Any], directory: str) -> Mapping[str, Any] | None:
    """Return the mount that holds a directory: of several the deepest."""
    mounts = [
        mount
        for mount in main_container(template).get("volumeMounts", ())
        if f"{posixpath.normpath(directory)}/".startswith(f"{posixpath.normpath(mount['mountPath']).rstrip('/')}/")
    ]
    return max(mounts, key=lambda mount: len(posixpath.normpath(mount["mountPath"])), default=None)


def _source(template: Mapping[str, Any], name: str) -> dict[str, Any]:
    volumes = template.get("spec", {}).get("volumes", ())
    source_volume: dict[str, Any] = next((volume for volume in volumes if volume["name"] == name), {})
    return {key: value for key, value in source_volume.items() if key != "name"}
