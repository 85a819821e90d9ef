"""Which processes a job is on one machine, and with what they are started; pure.

Each replica is what its pod would be: the pod is rendered as for a cluster, and addresses, mounts and variables of its
container `tensorflow` are then put in their local form.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from tfdist.api.v1 import TFDistJob
from tfdist.contract import LAUNCH_PORT
from tfdist.local import gpus, launch
from tfdist.local.notes import notes
from tfdist.local.ports import Addresses
from tfdist.local.process import ReplicaPlan, Translation
from tfdist.local.variables import Known
from tfdist.local.volumes import Folder, Sources, names_of
from tfdist.render.defaults import DEFAULT_COMMAND
from tfdist.render.gang import Gang, GangName, Member, gangs
from tfdist.render.installation import Installation
from tfdist.render.names import hostname
from tfdist.render.pod import Attempt, PodRenderer
from tfdist.render.source import FETCH_CONTAINER
from tfdist.render.template import main_container
from tfdist.validation import Problem

BUNDLED: Final = "bundled"
"""Stands for the trainer's image where a job names none."""


class CannotRunHere(Exception):  # noqa: N818  the name says what the user has
    """A job that needs what only a cluster has; `problems` says what, and what to do."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class Machine:
    """What a plan needs to know of this machine and of the user's wishes.

    `entry_point` stands for that of an image, which cannot be seen from here; `gpus` are the numbers of the devices.
    """

    host: str
    inherited: Mapping[str, str]
    entry_point: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    launcher: bool = False
    """Whether gangs are started again in place."""


@dataclass(frozen=True, slots=True)
class GangPlan:
    """The processes of one gang."""

    gang: Gang
    replicas: tuple[ReplicaPlan, ...]

    @property
    def leader(self) -> ReplicaPlan:
        """The replica that speaks for the gang."""
        return self.replicas[0]


@dataclass(frozen=True, slots=True)
class Plan:
    """All that a local run does: folders first, then what is fetched, then the gangs."""

    job: TFDistJob
    gangs: Mapping[GangName, GangPlan]
    folders: Mapping[Path, Folder]
    fetch: ReplicaPlan | None
    notes: tuple[str, ...]


def plan(job: TFDistJob, sources: Sources, machine: Machine, take_port: Callable[[], int]) -> Plan:
    """Return the processes of a job with a uid; `take_port` returns a free port, each time another.

    Raises:
        CannotRunHere: something of it only a cluster has.
    """
    draft = _Draft(job, sources, machine, take_port)
    made = {gang.name: GangPlan(gang, draft.replicas(gang)) for gang in gangs(job)}
    draft.check()
    roles = frozenset(member.role for member in draft.members)
    said = [*notes(job, roles, launcher=machine.launcher), *dict.fromkeys(draft.notes)]
    beside = [planned for name, planned in made.items() if name is not GangName.EVALUATION]
    for together in (beside, [planned for planned in made.values() if planned not in beside]):
        asked = [replica.gpus for planned in together for replica in planned.replicas]
        visible = iter(gpus.shared_out(asked, machine.gpus))
        made |= {planned.gang.name: _with_gpus(planned, visible) for planned in together}
        text = gpus.note(asked, machine.gpus) if together else None
        said += [text] if text and text not in said else []
    return Plan(job, made, draft.folders, draft.fetch, tuple(said))


class _Draft:
    """What comes together while the replicas of a job are planned, one after the other."""

    def __init__(self, job: TFDistJob, sources: Sources, machine: Machine, take_port: Callable[[], int]) -> None:
        self._job, self._sources, self._machine = job, sources, machine
        self.members = [member for gang in gangs(job) for member in gang.members]
        self._addresses = Addresses(job, (hostname(m.role, m.index) for m in self.members), take_port)
        self.folders: dict[Path, Folder] = {}
        self.fetch: ReplicaPlan | None = None
        self.notes: list[str] = []
        self._problems: dict[Problem, None] = {}
        self._volumes: dict[str, None] = {}

    def replicas(self, gang: Gang) -> tuple[ReplicaPlan, ...]:
        """Return the processes of a gang."""
        pods = PodRenderer(self._job, gang, Installation(default_image=BUNDLED))
        made = {member: self._replica(member, pods.pod(member, Attempt(0, 0))) for member in gang.members}
        if self._machine.launcher:
            return launch.launched(self._job, gang, made, lambda host: self._addresses.port(host, LAUNCH_PORT))
        return tuple(launch.unlaunched(replica) for replica in made.values())

    def check(self) -> None:
        """Raise `CannotRunHere` if anything is missing."""
        known = ", ".join(name for name in self._volumes if not name.startswith("tfdist-")) or "none"
        for name in self._sources.named.keys() - self._volumes.keys():
            message = f"--volume {name}: no volume of the job is called so; there is {known}"
            self._problems[Problem("spec.volumes", message)] = None
        if self._problems:
            raise CannotRunHere(list(self._problems))

    def _replica(self, member: Member, pod: Mapping[str, Any]) -> ReplicaPlan:
        container, name = main_container(pod), hostname(member.role, member.index)
        known = Known(pod, self._machine.host, self._sources.config_maps, self._machine.inherited)
        translation = Translation(pod, name, known, self._addresses, self._sources)
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
        """Return what is run before `args`; an image of the user's for `training` is one of the trainer's kind."""
        own: Sequence[str] = container.get("command") or self._machine.entry_point
        if not own and self._job.spec.training is not None:
            return DEFAULT_COMMAND
        if not own:
            advice = "give the job a command, or put `-- COMMAND` behind FILE"
            message = f"the program is the entry point of {container['image']}, which cannot be seen here: {advice}"
            self._problems[Problem("spec.image", message)] = None
        return own


def _with_gpus(planned: GangPlan, visible: Iterator[str]) -> GangPlan:
    """Return the gang with the GPUs that each replica sees, the next of `visible`, but where the job says it itself."""
    replicas = (
        replace(each, environment={gpus.VARIABLE: devices, **each.environment})
        for each, devices in zip(planned.replicas, visible, strict=False)
    )
    return replace(planned, replicas=tuple(replicas))
