"""The place on storage where a job writes its checkpoints, comparable with that of other jobs of its namespace."""

import json
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tfdist.api.v1 import TFDistJob
from tfdist.contract import Task
from tfdist.render.gang import training_gang
from tfdist.render.replica_job import expand_placeholders
from tfdist.render.template import main_container, role_template

_NOT_SHARED: Final = frozenset({"emptyDir", "ephemeral", "configMap", "secret", "projected", "downwardAPI", "image"})
"""Volumes of one pod, or without write access."""


@dataclass(frozen=True, slots=True)
class CheckpointLocation:
    """A volume source as JSON and a path below it; for a URL no volume."""

    volume: str
    path: str

    @property
    def storage(self) -> str:
        """Text for messages: the claim or the kind of volume; "" for a URL."""
        source = json.loads(self.volume or "{}")
        claim = source.get("persistentVolumeClaim", {}).get("claimName")
        return f"claim {claim}" if claim else f"volume {next(iter(source), '')}" if source else ""


def checkpoint_location(job: TFDistJob) -> CheckpointLocation | None:
    """Return where a job writes checkpoints; None for a job that writes none, or to a volume of each pod.

    Two directories below different mounts of one volume are the same location, if their paths on the volume are.
    """
    checkpoint = job.spec.checkpoint
    if checkpoint is None or job.spec.task is not Task.TRAIN:
        return None
    directory = expand_placeholders(job, checkpoint.directory)
    if not directory.startswith("/"):
        scheme, separator, path = directory.partition("://")
        return CheckpointLocation("", f"{scheme}{separator}{posixpath.normpath(path)}")
    template = role_template(job, training_gang(job).leader.role)
    mount = _mount_of(template, directory)
    if mount is None or "subPathExpr" in mount:  # the path on the volume is known to the kubelet only
        return None
    source = _source(template, str(mount["name"]))
    if not source or _NOT_SHARED & source.keys():
        return None
    below = posixpath.relpath(directory, mount["mountPath"])
    path = posixpath.normpath(posixpath.join(mount.get("subPath", ""), below))
    return CheckpointLocation(json.dumps(source, sort_keys=True), path)


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
