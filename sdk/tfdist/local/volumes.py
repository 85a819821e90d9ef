"""The volumes of a pod as folders of this machine; pure.

| volume | folder |
|---|---|
| `hostPath` | that path |
| `persistentVolumeClaim` | one for each claim, below the state folder: it stays, and the next run finds it |
| `emptyDir` | one for each replica, empty at each start |
| `configMap` | one for each replica, with the files of the ConfigMap of that name in the same FILE |
| any | whatever `--volume NAME=FOLDER` says, by the volume's or the claim's name |
"""

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tfdist.render.template import CHECKPOINT_VOLUME
from tfdist.validation import Problem

CHECKPOINT: Final = "checkpoint"
"""What people call `checkpoint.volume`, which has no name of its own."""

_CLAIM: Final = "persistentVolumeClaim"


@dataclass(frozen=True, slots=True)
class Folder:
    """Where a volume is: its folder, whether it is to be made or emptied, and the files to be put there.

    `label` is what people call it, where they have to know where it is: because it is theirs to fill, or stays.
    """

    path: Path
    label: str = ""
    make: bool = False
    empty: bool = False
    files: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Sources:
    """What volumes can be made of: the state folder, what the user names, and ConfigMaps by their names."""

    state: Path
    named: Mapping[str, Path] = field(default_factory=dict)
    config_maps: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def folder(self, volume: Mapping[str, Any], replica: str) -> Folder | Problem:
        """Return where a volume of a pod is for a replica, or why it cannot be had."""
        for name in names_of(volume):
            if name in self.named:
                return Folder(self.named[name], f"volume {name}", make=True)
        if (claim := volume.get(_CLAIM)) is not None:
            name = claim["claimName"]
            return Folder(self.state / "volumes" / name, f"claim {name}", make=True)
        if "emptyDir" in volume or "ephemeral" in volume:
            return Folder(self.state / "scratch" / replica / volume["name"], make=True, empty=True)
        if (of_host := volume.get("hostPath")) is not None:
            return Folder(Path(of_host["path"]), make=of_host.get("type") == "DirectoryOrCreate")
        if (source := volume.get("configMap")) is not None:
            return self._config_map(volume["name"], source, replica)
        return _refusal(volume)

    def _config_map(self, name: str, source: Mapping[str, Any], replica: str) -> Folder | Problem:
        found = self.config_maps.get(source["name"])
        if found is None and not source.get("optional"):
            text = f"put the ConfigMap {source['name']} into the same file or folder, or give --volume {name}=FOLDER"
            return Problem("spec.volumes", f"no such ConfigMap here: {text}")
        files = contents(found or {})
        if "items" in source:
            missing = [item["key"] for item in source["items"] if item["key"] not in files]
            if missing and not source.get("optional"):
                return Problem("spec.volumes", f"the ConfigMap {source['name']} has no key {missing[0]!r}")
            files = {item["path"]: files[item["key"]] for item in source["items"] if item["key"] in files}
        return Folder(self.state / "config" / replica / name, make=True, empty=True, files=files)


def names_of(volume: Mapping[str, Any]) -> Iterable[str]:
    """Yield the names by which the user may mean a volume."""
    yield volume["name"]
    if _CLAIM in volume:
        yield volume[_CLAIM]["claimName"]
    if volume["name"] == CHECKPOINT_VOLUME:
        yield CHECKPOINT


def contents(config_map: Mapping[str, Any]) -> dict[str, bytes]:
    """Return the files that a ConfigMap holds."""
    texts = {key: str(text).encode() for key, text in (config_map.get("data") or {}).items()}
    return texts | {key: base64.b64decode(text) for key, text in (config_map.get("binaryData") or {}).items()}


def _refusal(volume: Mapping[str, Any]) -> Problem:
    kind = next((key for key in volume if key != "name"), "nothing")
    what = "the secrets of a cluster are not here" if kind == "secret" else f"{kind} is a cluster's"
    name = next(iter(reversed(list(names_of(volume)))))
    return Problem("spec.volumes", f"volume {volume['name']}: {what}; give --volume {name}=FOLDER with what it holds")
