"""Plan of a local run: the processes of a job, with command, environment and folders; pure.

Each pod is rendered as for a cluster; then addresses, mounts and variables of its container `tensorflow` are
translated to this machine.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from tfdist.api.v1 import TFDistJob
from tfdist.contract import LAUNCH_PORT
from tfdist.local import gpus, launch
from tfdist.local.env import EnvSources
from tfdist.local.ports import Addresses
from tfdist.local.replica_plan import ContainerToProcess, ReplicaPlan
from tfdist.local.unsupported import unsupported_fields
from tfdist.local.volumes import Folder, Sources, names_of
from tfdist.render.defaults import DEFAULT_COMMAND
from tfdist.render.gang import Gang, GangName, Member, gangs
from tfdist.render.installation import Installation
from tfdist.render.names import hostname
from tfdist.render.pod import Attempt, PodRenderer
from tfdist.render.source import FETCH_CONTAINER
from tfdist.render.template import main_container
from tfdist.validation import FieldError

BUNDLED: Final = "bundled"
"""Placeholder for the trainer image of a job that names no image."""


class CannotRunHere(Exception):  # noqa: N818  reads well where it is caught
    """The job needs a cluster; `problems` lists each reason with its remedy."""

    def __init__(self, problems: Sequence[FieldError]) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class Machine:
    """This machine and the user's options.

    `entry_point` replaces that of an image, which a local run cannot read; `gpus` are the numbers of the devices.
    """

    host: str
    inherited: Mapping[str, str]
    entry_point: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    launcher: bool = False
    """Whether gangs restart in place."""


@dataclass(frozen=True, slots=True)
class GangPlan:
    """Processes of one gang."""

    gang: Gang
    replicas: tuple[ReplicaPlan, ...]

    @property
    def leader(self) -> ReplicaPlan:
        """The replica that reports the gang's progress."""
        return self.replicas[0]


@dataclass(frozen=True, slots=True)
class Plan:
    """Complete plan of a local run, in the order of its execution: folders, fetch of the source, gangs."""

    job: TFDistJob
    gangs: Mapping[GangName, GangPlan]
    folders: Mapping[Path, Folder]
    fetch: ReplicaPlan | None
    notes: tuple[str, ...]


def plan(job: TFDistJob, sources: Sources, machine: Machine, take_port: Callable[[], int]) -> Plan:
    """Return the plan of a job.

    Args:
        job: the job, with a uid.
        sources: folders and ConfigMaps that back its volumes.
        machine: this machine.
        take_port: returns a free port, another one at each call.

    Raises:
        CannotRunHere: the job needs a cluster.
    """
    draft = _Draft(job, sources, machine, take_port)
    made = {gang.name: GangPlan(gang, draft.replicas(gang)) for gang in gangs(job)}
    draft.check()
    roles = frozenset(member.role for member in draft.members)
    notes = [*unsupported_fields(job, roles, launcher=machine.launcher), *dict.fromkeys(draft.notes)]
    during_training = [planned for name, planned in made.items() if name is not GangName.EVALUATION]
    afterwards = [planned for planned in made.values() if planned not in during_training]
    for concurrent in (during_training, afterwards):
        asked = [replica.gpus for planned in concurrent for replica in planned.replicas]
        visible = iter(gpus.assign_gpus(asked, machine.gpus))
        made |= {planned.gang.name: _with_gpus(planned, visible) for planned in concurrent}
        note = gpus.gpu_note(asked, machine.gpus) if concurrent else None
        notes += [note] if note and note not in notes else []
    return Plan(job, made, draft.folders, draft.fetch, tuple(notes))


class _Draft:
    """Collects folders, notes and problems while the replicas of a job are planned one by one."""

    def __init__(self, job: TFDistJob, sources: Sources, machine: Machine, take_port: Callable[[], int]) -> None:
        self._job, self._sources, self._machine = job, sources, machine
        self.members = [member for gang in gangs(job) for member in gang.members]
        self._addresses = Addresses(job, (hostname(m.role, m.index) for m in self.members), take_port)
        self.folders: dict[Path, Folder] = {}
        self.fetch: ReplicaPlan | None = None
        self.notes: list[str] = []
        self._problems: dict[FieldError, None] = {}
        self._volumes: dict[str, None] = {}

    def replicas(self, gang: Gang) -> tuple[ReplicaPlan, ...]:
        """Return the planned processes of a gang."""
        pods = PodRenderer(self._job, gang, Installation(default_image=BUNDLED))
        made = {member: self._replica(member, pods.pod(member, Attempt(0, 0))) for member in gang.members}
        if self._machine.launcher:
            return launch.with_launcher(self._job, gang, made, lambda host: self._addresses.port(host, LAUNCH_PORT))
        return tuple(launch.without_launcher(replica) for replica in made.values())

    def check(self) -> None:
        """Raise `CannotRunHere` if there are problems, or options for volumes that the job does not have."""
        known = ", ".join(name for name in self._volumes if not name.startswith("tfdist-")) or "none"
        for name in self._sources.named.keys() - self._volumes.keys():
            message = f"--volume {name}: the job has no volume of this name; it has {known}"
            self._problems[FieldError("spec.volumes", message)] = None
        if self._problems:
            raise CannotRunHere(list(self._problems))

    def _replica(self, member: Member, pod: Mapping[str, Any]) -> ReplicaPlan:
        container, name = main_container(pod), hostname(member.role, member.index)
        env_sources = EnvSources(pod, self._machine.host, self._sources.config_maps, self._machine.inherited)
        translation = ContainerToProcess(pod, name, env_sources, self._addresses, self._sources)
        self._problems |= dict.fromkeys(translation.problems)
        self.folders |= {folder.path: folder for folder in translation.folders}
        self._volumes |= {each: None for volume in pod["spec"].get("volumes", ()) for each in names_of(volume)}
        for init in pod["spec"].get("initContainers", ()):
            if init["name"] == FETCH_CONTAINER and self.fetch is None:
                self.fetch = translation.replica(init["command"], name="fetch")
        if "workingDir" in container and translation.directory is None:
            self.notes.append(f"workingDir: {container['workingDir']} is the image's; replicas run in this folder")
        return translation.replica([*self._command(container), *container.get("args", ())])

    def _command(self, container: Mapping[str, Any]) -> Sequence[str]:
        """Return the command before `args`; with `training` a custom image has the trainer's default command."""
        own: Sequence[str] = container.get("command") or self._machine.entry_point
        if not own and self._job.spec.training is not None:
            return DEFAULT_COMMAND
        if not own:
            advice = "give the job a command, or name one here: --command 'python train.py'"
            message = f"the program is the entry point of {container['image']}, which cannot be seen here: {advice}"
            self._problems[FieldError("spec.image", message)] = None
        return own


def _with_gpus(planned: GangPlan, visible: Iterator[str]) -> GangPlan:
    """Return the gang with the next of `visible` for each replica, unless the job itself sets the variable."""
    replicas = (
        replace(each, environment={gpus.VARIABLE: devices, **each.environment})
        for each, devices in zip(planned.replicas, visible, strict=False)
    )
    return replace(planned, replicas=tuple(replicas))
