"""Translates the container `tensorflow` of a pod to a process of this machine; pure."""

import contextlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from tfdist import contract
from tfdist.local.env import EnvSources, container_env, expand
from tfdist.local.paths import Paths
from tfdist.local.ports import Addresses
from tfdist.local.volumes import Sources, VolumeFolder
from tfdist.podspec.resources import nvidia_gpus
from tfdist.render import defaults, requirements, source
from tfdist.render.proxy import NO_GRPC_PROXY_ENV
from tfdist.render.requirements import INSTALL_CONTAINER
from tfdist.render.source import FETCH_CONTAINER
from tfdist.render.template import main_container
from tfdist.validation import FieldError

PREPARATIONS: Final = {FETCH_CONTAINER: "fetch", INSTALL_CONTAINER: "install"}
"""Names of the processes that run once before all replicas, by their init container: they fetch or unpack the source,
and install the packages."""

_PORT_VARIABLE: Final = re.compile(r"TFDIST_[A-Z]+_PORT")
"""Variables of the contract that hold a port on which the replica listens."""

_SOURCE: Final = "source"
"""Folder of the source from Git or an archive, below the state folder."""

_PACKAGES: Final = "packages"
"""Folder of the packages, below the state folder."""

_PARTS_WITH_PATHS: Final = ("training", "checkpoint", "export")
"""Parts of `TFDIST_JOB` that contain paths of the pod."""


@dataclass(frozen=True, slots=True)
class ReplicaPlan:
    """One process: command, environment variables in addition to the user's, number of GPUs requested, folders."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    directory: Path | None
    grace_seconds: float
    gpus: int = 0
    folders: tuple[VolumeFolder, ...] = ()

    @property
    def report_port(self) -> int:
        """Port that serves its progress report."""
        return int(self.environment[contract.REPORT_PORT_ENV])


class ContainerToProcess:
    """Translates a pod to a process: mounts to folders, addresses to ports.

    `problems` lists what this machine cannot provide, `folders` what must exist before the process starts.
    """

    def __init__(
        self, pod: Mapping[str, Any], name: str, env_sources: EnvSources, addresses: Addresses, sources: Sources
    ) -> None:
        self._pod, self._name, self._addresses = pod, name, addresses
        self._container = main_container(pod)
        self.problems: list[FieldError] = []
        self.folders: list[VolumeFolder] = []
        self._inherited = env_sources.inherited
        self._variables, problems = container_env(self._container, env_sources)
        self.problems += problems
        self._paths = Paths(self._mounts(self._container, sources))
        self.folders = [replace(folder, files=self._files(folder.files)) for folder in self.folders]

    @property
    def directory(self) -> Path | None:
        """The working directory, if the container's is in a volume."""
        text = self._container.get("workingDir", "")
        local = self._paths.translate(text)
        return Path(local) if local != text else None

    @property
    def gpus(self) -> int:
        """The number of GPUs that the container requests."""
        return nvidia_gpus(self._container)

    def replica(self, command: Sequence[str]) -> ReplicaPlan:
        """Return the process that runs `command`, which is written for the container."""
        return ReplicaPlan(
            name=self._name,
            command=tuple(self._translate(expand(word, self._variables)) for word in command),
            environment={key: self._variable(key, value) for key, value in self._variables.items()}
            | self._python_path(),
            directory=self.directory,
            grace_seconds=self._pod["spec"].get("terminationGracePeriodSeconds", contract.DEFAULT_GRACE_SECONDS),
            gpus=self.gpus,
            folders=tuple(self.folders),
        )

    def preparation(self, container: Mapping[str, Any], sources: Sources) -> ReplicaPlan:
        """Return the process of an init container that fills a folder for all replicas, which is empty before."""
        others = len(self.folders)
        paths = Paths(self._mounts(container, sources))
        filled = _SOURCE if container["name"] == FETCH_CONTAINER else _PACKAGES
        folders = tuple(replace(f, empty=True) if f.path.name == filled else f for f in self.folders[others:])
        command = [paths.translate(word) for word in container["command"]]
        # the working directory of the replicas may be in the source
        name = PREPARATIONS[container["name"]]
        return replace(self.replica(command), name=name, folders=folders, directory=None)

    def _mounts(self, container: Mapping[str, Any], sources: Sources) -> dict[str, Path]:
        volumes = {volume["name"]: volume for volume in self._pod["spec"].get("volumes", ())}
        mounts = {}
        for mount in container.get("volumeMounts", ()):
            # the machine has its own temporary folder and shared memory
            if mount["name"] in {defaults.TEMPORARY, defaults.SHARED_MEMORY}:
                continue
            folder = self._folder(volumes[mount["name"]], sources)
            if isinstance(folder, FieldError):
                self.problems.append(folder)
            else:
                inside = expand(mount.get("subPathExpr", ""), self._variables) or mount.get("subPath", "")
                mounts[mount["mountPath"]] = folder.path / inside
                self.folders.append(folder)
                if inside and folder.make and not folder.files:
                    self.folders.append(VolumeFolder(folder.path / inside, make=True))
        return mounts

    def _files(self, files: Mapping[str, bytes]) -> dict[str, bytes]:
        """Return the files of a ConfigMap, translated like arguments: they too may contain addresses and paths."""
        result = dict(files)
        for name, content in files.items():
            with contextlib.suppress(UnicodeDecodeError):
                result[name] = self._translate(content.decode()).encode()
        return result

    def _folder(self, volume: Mapping[str, Any], sources: Sources) -> VolumeFolder | FieldError:
        if volume["name"] == source.VOLUME and "emptyDir" in volume:
            # in a cluster each pod fetches the source; here one fetch serves all replicas
            return VolumeFolder(sources.state / _SOURCE, make=True)
        if volume["name"] == requirements.VOLUME:
            return VolumeFolder(sources.state / _PACKAGES, make=True)
        return sources.folder(volume, self._name)

    def _python_path(self) -> dict[str, str]:
        """Return `PYTHONPATH` of a replica with a source: the shell's comes last, as an image's would."""
        if not any(mount["name"] == source.VOLUME for mount in self._container.get("volumeMounts", ())):
            return {}
        paths = (self._translate(self._variables[source.PYTHON_PATH_ENV]), self._inherited.get(source.PYTHON_PATH_ENV))
        return {source.PYTHON_PATH_ENV: ":".join(filter(None, paths))}

    def _variable(self, name: str, value: str) -> str:
        if _PORT_VARIABLE.fullmatch(name):
            return str(self._addresses.port(self._name, int(value)))
        if name == NO_GRPC_PROXY_ENV:  # the loopback addresses in it remain
            domain = f".{self._pod['spec']['subdomain']}.{self._pod['metadata']['namespace']}.svc"
            return ",".join(entry for entry in value.split(",") if entry != domain)
        if name == contract.JOB_ENV:
            replica_job = json.loads(self._addresses.translate(value))
            parts = [part for part in _PARTS_WITH_PATHS if part in replica_job]
            replica_job |= {part: self._paths.translate_all(replica_job[part]) for part in parts}
            return json.dumps(replica_job, sort_keys=True, separators=(",", ":"))
        return self._translate(value)

    def _translate(self, text: str) -> str:
        return self._paths.translate(self._addresses.translate(text))
