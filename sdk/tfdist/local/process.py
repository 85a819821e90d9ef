"""The process that a pod's container `tensorflow` is on one machine; pure."""

import contextlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from tfdist import contract
from tfdist.local.paths import Paths
from tfdist.local.ports import Addresses
from tfdist.local.variables import Known, expanded, variables
from tfdist.local.volumes import Folder, Sources
from tfdist.render import defaults, source
from tfdist.render.template import main_container
from tfdist.validation import Problem

GRACE_SECONDS: Final = 30
"""What Kubernetes gives a pod between SIGTERM and SIGKILL where nothing is said."""

_PORT_VARIABLE: Final = re.compile(r"TFDIST_[A-Z]+_PORT")
"""Variables of the contract that hold a port of the replica's own."""

_TOLD_WITH_PATHS: Final = ("training", "checkpoint")
"""Parts of `TFDIST_JOB` in which paths of the pod stand."""


@dataclass(frozen=True, slots=True)
class ReplicaPlan:
    """One process: what is run, with which variables beside the user's own, and how many GPUs it asks for."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    directory: Path | None
    grace_seconds: float
    gpus: int = 0

    @property
    def report_port(self) -> int:
        """Where it tells its progress."""
        return int(self.environment[contract.REPORT_PORT_ENV])


class Translation:
    """From a pod to a process: its mounts as folders, its addresses as ports.

    `problems` says what cannot be had here, `folders` what has to be there before the process starts.
    """

    def __init__(self, pod: Mapping[str, Any], name: str, known: Known, addresses: Addresses, sources: Sources) -> None:
        self._pod, self._name, self._addresses = pod, name, addresses
        self._container = main_container(pod)
        self.problems: list[Problem] = []
        self.folders: list[Folder] = []
        self._variables, problems = variables(self._container, known)
        self.problems += problems
        self._paths = Paths(self._mounts(sources))
        self.folders = [replace(each, files=self._files(each.files)) for each in self.folders]

    @property
    def directory(self) -> Path | None:
        """The folder to run in, where the container's is in a volume."""
        text = self._container.get("workingDir", "")
        here = self._paths.here(text)
        return Path(here) if here != text else None

    def replica(self, command: Sequence[str], name: str = "") -> ReplicaPlan:
        """Return the process that runs `command`, written for the container."""
        limits = self._container.get("resources", {}).get("limits", {})
        return ReplicaPlan(
            name=name or self._name,
            command=tuple(self._here(expanded(word, self._variables)) for word in command),
            environment={key: self._variable(key, value) for key, value in self._variables.items()},
            directory=self.directory,
            grace_seconds=self._pod["spec"].get("terminationGracePeriodSeconds", GRACE_SECONDS),
            gpus=int(limits.get("nvidia.com/gpu", 0)),
        )

    def _mounts(self, sources: Sources) -> dict[str, Path]:
        volumes = {volume["name"]: volume for volume in self._pod["spec"].get("volumes", ())}
        mounts = {}
        for mount in self._container.get("volumeMounts", ()):
            # what a pod finds in its own temporary folder, a process finds in the machine's
            if mount["name"] == defaults.TEMPORARY:
                continue
            folder = self._folder(volumes[mount["name"]], sources)
            if isinstance(folder, Problem):
                self.problems.append(folder)
            else:
                inside = expanded(mount.get("subPathExpr", ""), self._variables) or mount.get("subPath", "")
                mounts[mount["mountPath"]] = folder.path / inside
                self.folders.append(folder)
                if inside and folder.make and not folder.files:
                    self.folders.append(Folder(folder.path / inside, make=True))
        return mounts

    def _files(self, files: Mapping[str, bytes]) -> dict[str, bytes]:
        """Return the files of a ConfigMap, which are part of the job as its arguments are, in their local form."""
        made = dict(files)
        for name, content in files.items():
            with contextlib.suppress(UnicodeDecodeError):
                made[name] = self._here(content.decode()).encode()
        return made

    def _folder(self, volume: Mapping[str, Any], sources: Sources) -> Folder | Problem:
        if volume["name"] == source.VOLUME and "emptyDir" in volume:
            # in a cluster each pod fetches the code; here it is fetched once for all
            return Folder(sources.state / "source", make=True, empty=True)
        return sources.folder(volume, self._name)

    def _variable(self, name: str, value: str) -> str:
        if _PORT_VARIABLE.fullmatch(name):
            return str(self._addresses.port(self._name, int(value)))
        if name == contract.JOB_ENV:
            told = json.loads(self._addresses.rewritten(value))
            told |= {part: self._paths.all_here(told[part]) for part in _TOLD_WITH_PATHS if part in told}
            return json.dumps(told, sort_keys=True, separators=(",", ":"))
        return self._here(value)

    def _here(self, text: str) -> str:
        return self._paths.here(self._addresses.rewritten(text))
