"""A job prepared for this machine: its pods become processes with a command, an environment and folders; pure.

Each pod is rendered as for a cluster; then addresses, mounts and variables of its container `tensorflow` are
translated to this machine.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from tfdist.api.policies import SchedulingSpec
from tfdist.api.v1 import TFDistJob
from tfdist.contract import LAUNCH_KEY_ENV, LAUNCH_PORT, LAUNCH_PORT_ENV
from tfdist.local import gpus
from tfdist.local.commands import with_commands
from tfdist.local.env import EnvSources
from tfdist.local.ports import Addresses
from tfdist.local.replica_plan import PREPARATIONS, ContainerToProcess, ReplicaPlan
from tfdist.local.unsupported import unsupported_fields
from tfdist.local.volumes import Sources, VolumeFolder, names_of
from tfdist.render.gang import GangName, gangs
from tfdist.render.installation import Installation
from tfdist.render.pod import Attempt, PodRenderer
from tfdist.render.template import main_container
from tfdist.validation import FieldError
from tfdist.validation.environment import MAX_VARIABLE_BYTES, too_large, variable_size

Manifest = Mapping[str, Any]

BUNDLED: Final = "bundled"
"""Placeholder for the trainer image of a job that names no image."""

_RUN_POLICY: Final = {
    "suspend": False,
    "standby": False,
    "clean_pod_policy": "Running",
    "ttl_seconds_after_finished": None,
}
"""Policies of every local run: the command runs the job, and leaves no process."""


class CannotRunHere(Exception):  # noqa: N818  reads well where it is caught
    """The job needs a cluster; `problems` lists each reason with its remedy."""

    def __init__(self, problems: Sequence[FieldError]) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class Machine:
    """This machine and the user's options.

    `entry_point` replaces the image's entry point, which a local run cannot read; `gpus` are the numbers of the
    devices.
    """

    host: str
    inherited: Mapping[str, str]
    entry_point: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    launcher: bool = False
    """Whether gangs restart in place."""
    launcher_key: str = ""
    """Key of the launchers, which pods get from a Secret."""


class LocalJob:
    """A job for this machine.

    `replicas` are the processes of its first attempt by host name, `preparations` are the processes that fetch the
    source and install the packages before them, `folders` must exist before any process starts, `notes` name the
    settings without effect.
    """

    def __init__(self, job: TFDistJob, sources: Sources, machine: Machine, take_port: Callable[[], int]) -> None:
        """Prepare a job, which has a uid; `take_port` returns a free port, another one at each call.

        Raises:
            CannotRunHere: the job needs a cluster.
        """
        self.job, problems = with_commands(job, machine.entry_point, launcher=machine.launcher)
        policies = {
            "run_policy": job.spec.run_policy.model_copy(update=_RUN_POLICY),
            "scheduling": SchedulingSpec(gang="None"),  # no gang scheduler would ever be there
            "tensor_board": None,
        }
        self.job = self.job.model_copy(update={"spec": self.job.spec.model_copy(update=policies)})
        self._sources, self._machine = sources, machine
        members = {member.name: gang.name for gang in gangs(self.job) for member in gang.members}
        self._addresses = Addresses(job, members, take_port)
        self._gpus_asked: dict[str, int] = {}
        self._devices: dict[str, str] = {}
        self.folders: dict[Path, VolumeFolder] = {}
        self.preparations: list[ReplicaPlan] = []
        self._problems = dict.fromkeys(problems)
        self._volumes: dict[str, None] = {}
        self.notes = unsupported_fields(job)
        for pod in self._first_attempt():
            self._check(pod)
        self._check_options()
        self._assign_gpus([name for name, gang in members.items() if gang is not GangName.EVALUATION])
        self._assign_gpus([name for name, gang in members.items() if gang is GangName.EVALUATION])
        self.replicas = {pod["spec"]["hostname"]: self.process(pod) for pod in self._first_attempt()}
        self._check_sizes()

    @property
    def process_names(self) -> list[str]:
        """Names of all processes: of the replicas, and of those before them."""
        return [*self.replicas, *(plan.name for plan in self.preparations)]

    def process(self, pod: Manifest) -> ReplicaPlan:
        """Return the process of a pod of any attempt."""
        replica = self._translation(pod).replica(main_container(pod).get("command", ()))
        # the job itself may set the variable
        environment = {gpus.VARIABLE: self._devices[replica.name], **replica.environment}
        if self._machine.launcher:
            environment[LAUNCH_PORT_ENV] = str(self._addresses.port(replica.name, LAUNCH_PORT))
        return replace(replica, environment=environment)

    def _first_attempt(self) -> Iterator[Manifest]:
        for gang in gangs(self.job):
            renderer = PodRenderer(self.job, gang, Installation(default_image=BUNDLED))
            yield from (renderer.pod(member, Attempt(0, 0)) for member in gang.members)

    def _translation(self, pod: Manifest) -> ContainerToProcess:
        environment = {**self._machine.inherited, LAUNCH_KEY_ENV: self._machine.launcher_key}
        env_sources = EnvSources(pod, self._machine.host, self._sources.config_maps, environment)
        return ContainerToProcess(pod, pod["spec"]["hostname"], env_sources, self._addresses, self._sources)

    def _check(self, pod: Manifest) -> None:
        """Collect folders, notes and problems of a pod."""
        container, translation = main_container(pod), self._translation(pod)
        for init in pod["spec"].get("initContainers", ()):
            name = PREPARATIONS.get(init["name"])
            if name is not None and all(plan.name != name for plan in self.preparations):
                self.preparations.append(translation.preparation(init, self._sources))
        self._problems |= dict.fromkeys(translation.problems)
        self.folders |= {folder.path: folder for folder in translation.folders}
        self._volumes |= {name: None for volume in pod["spec"].get("volumes", ()) for name in names_of(volume)}
        if "workingDir" in container and translation.directory is None:
            self._note(f"workingDir: {container['workingDir']} is the image's; replicas run in this folder")
        self._gpus_asked[pod["spec"]["hostname"]] = translation.gpus

    def _check_options(self) -> None:
        """Raise `CannotRunHere` if there are problems, or options for volumes that the job does not have."""
        names = ", ".join(name for name in self._volumes if not name.startswith("tfdist-")) or "none"
        for name in self._sources.named.keys() - self._volumes.keys():
            message = f"--volume {name}: the job has no volume of this name; it has {names}"
            self._problems[FieldError("spec.volumes", message)] = None
        if self._problems:
            raise CannotRunHere(list(self._problems))

    def _check_sizes(self) -> None:
        """Raise `CannotRunHere` if a variable is too large: paths of this machine may be longer than a pod's."""
        for replica in self.replicas.values():
            for name, value in replica.environment.items():
                if variable_size(name, value) > MAX_VARIABLE_BYTES:
                    raise CannotRunHere([too_large(name, value)])

    def _assign_gpus(self, concurrent: Collection[str]) -> None:
        """Assign the machine's GPUs to replicas that run at one time."""
        counts = [self._gpus_asked[name] for name in concurrent]
        self._devices |= dict(zip(concurrent, gpus.assign_gpus(counts, self._machine.gpus), strict=True))
        note = gpus.gpu_note(counts, self._machine.gpus) if concurrent else None
        if note:
            self._note(note)

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)
