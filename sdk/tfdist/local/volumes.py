"""Translates the volumes of a pod to folders of this machine; pure.

| volume | folder |
|---|---|
| `hostPath` | that path |
| `persistentVolumeClaim` | one for each claim, below the state folder; kept for the next run |
| `emptyDir` | one for each replica, empty at each start |
| `configMap` | one for each replica, with the files of the ConfigMap of that name in the same FILE |
| `projected`, of ConfigMaps alone | the same, with the files of all of them |
| any | the folder of `--volume NAME=FOLDER`, by the name of the volume or claim |
"""

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tfdist.render.template import CHECKPOINT_VOLUME
from tfdist.validation import FieldError

CHECKPOINT: Final = "checkpoint"
"""Name of `checkpoint.volume` on the command line; the field itself has no name."""

_CLAIM: Final = "persistentVolumeClaim"


@dataclass(frozen=True, slots=True)
class VolumeFolder:
    """Folder of a volume: whether to create or empty it, and the files to write into it.

    `label` is its name in messages; set if the user fills the folder or it outlives the run.
    """

    path: Path
    label: str = ""
    make: bool = False
    empty: bool = False
    files: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Sources:
    """Sources of volumes: the state folder, folders named by the user, and ConfigMaps by name."""

    state: Path
    named: Mapping[str, Path] = field(default_factory=dict)
    config_maps: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def folder(self, volume: Mapping[str, Any], replica: str) -> VolumeFolder | FieldError:
        """Return the folder of a pod's volume for a replica, or the reason why there is none."""
        for name in names_of(volume):
            if name in self.named:
                return VolumeFolder(self.named[name], f"volume {name}", make=True)
        if (claim := volume.get(_CLAIM)) is not None:
            name = claim["claimName"]
            return VolumeFolder(self.state / "volumes" / name, f"claim {name}", make=True)
        if "emptyDir" in volume or "ephemeral" in volume:
            return VolumeFolder(self.state / "scratch" / replica / volume["name"], make=True, empty=True)
        if (of_host := volume.get("hostPath")) is not None:
            return VolumeFolder(Path(of_host["path"]), make=of_host.get("type") == "DirectoryOrCreate")
        if (source := volume.get("configMap")) is not None:
            return self._config_maps(volume["name"], [source], replica)
        projected = (volume.get("projected") or {}).get("sources") or ()
        if projected and all("configMap" in each for each in projected):
            return self._config_maps(volume["name"], [each["configMap"] for each in projected], replica)
        return _unavailable(volume)

    def _config_maps(self, name: str, maps: Iterable[Mapping[str, Any]], replica: str) -> VolumeFolder | FieldError:
        files: dict[str, bytes] = {}
        for source in maps:
            found = self._files(name, source)
            if isinstance(found, FieldError):
                return found
            files |= found
        return VolumeFolder(self.state / "config" / replica / name, make=True, empty=True, files=files)

    def _files(self, name: str, source: Mapping[str, Any]) -> dict[str, bytes] | FieldError:
        config_map = self.config_maps.get(source["name"])
        if config_map is None and not source.get("optional"):
            text = f"put the ConfigMap {source['name']} into the same file or folder, or give --volume {name}=FOLDER"
            return FieldError("spec.volumes", f"no such ConfigMap here: {text}")
        files = contents(config_map or {})
        if "items" in source:
            missing = [item["key"] for item in source["items"] if item["key"] not in files]
            if missing and not source.get("optional"):
                return FieldError("spec.volumes", f"the ConfigMap {source['name']} has no key {missing[0]!r}")
            files = {item["path"]: files[item["key"]] for item in source["items"] if item["key"] in files}
        return files


def names_of(volume: Mapping[str, Any]) -> Iterable[str]:
    """Yield the names of a volume that `--volume` accepts."""
    yield volume["name"]
    if _CLAIM in volume:
        yield volume[_CLAIM]["claimName"]
    if volume["name"] == CHECKPOINT_VOLUME:
        yield CHECKPOINT


def contents(config_map: Mapping[str, Any]) -> dict[str, bytes]:
    """Return the files of a ConfigMap, by key."""
    texts = {key: str(text).encode() for key, text in (config_map.get("data") or {}).items()}
    return texts | {key: base64.b64decode(text) for key, text in (config_map.get("binaryData") or {}).items()}


def _unavailable(volume: Mapping[str, Any]) -> FieldError:
    kind = next((key for key in volume if key != "name"), "nothing")
    reason = f"{'secrets exist' if kind == 'secret' else f'{kind} exists'} in a cluster only"
    name = next(iter(reversed(list(names_of(volume)))))
    return FieldError(
        "spec.volumes", f"volume {volume['name']}: {reason}; give --volume {name}=FOLDER with its content"
    )
