"""Commands of the replicas on this machine: the entry point of an image, and the launcher with `--in-place` only.

The planner renders pods from the job, so the commands are set in the job. With the launcher in every command it renders
the launchers' settings too, as on a cluster; without it the launcher is removed from a command that names it, such as
the bundled trainer's, because a local run without `--in-place` restarts whole processes.
"""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import PurePath
from typing import Final

from tfdist.api.pod_fields import PodFields
from tfdist.api.roles import ChiefSpec, EvaluatorSpec, ParameterServerSpec, WorkerSpec
from tfdist.api.template import PodTemplate
from tfdist.api.v1 import TFDistJob
from tfdist.contract import MAIN_CONTAINER, Role
from tfdist.podspec import merge
from tfdist.render.command import DEFAULT_COMMAND, LAUNCHER
from tfdist.render.gang import gangs
from tfdist.render.template import main_container, role_template
from tfdist.validation import FieldError

_MODULE: Final = "tfdist_launch"
_COLD: Final = "--cold"
_FIELDS: Final[dict[Role, type[ChiefSpec | WorkerSpec | ParameterServerSpec | EvaluatorSpec]]] = {
    Role.CHIEF: ChiefSpec,
    Role.WORKER: WorkerSpec,
    Role.PS: ParameterServerSpec,
    Role.EVALUATOR: EvaluatorSpec,
}


def launcher_installed() -> bool:
    """Return whether the launcher is installed in this Python environment."""
    return find_spec(_MODULE) is not None


def with_commands(job: TFDistJob, entry_point: Sequence[str], *, launcher: bool) -> tuple[TFDistJob, list[FieldError]]:
    """Return the job with the command of each role for this machine, and the roles without a known command.

    Args:
        job: the job.
        entry_point: command that replaces the entry point of an image.
        launcher: whether the replicas run under the launcher.
    """
    fields: dict[str, PodFields] = {}
    problems: dict[FieldError, None] = {}
    for member in (member for gang in gangs(job) for member in gang.members):
        role = Role.WORKER if member.role is Role.EVALUATION else member.role
        if str(role) in fields:
            continue
        container = main_container(role_template(job, role))
        own_command = _own_command(job, container, entry_point)
        if not own_command:
            advice = "give the job a command, or name one here: --command 'python train.py'"
            message = f"the program is the entry point of {container['image']}, which cannot be seen here: {advice}"
            problems[FieldError("spec.image", message)] = None
        options, command = _split_launcher([*own_command, *container.get("args", ())])
        prefix = [LAUNCHER, *options, "--"] if launcher else []
        fields[str(role)] = _with_command(job, role, [*prefix, *command])
    return job.model_copy(update={"spec": job.spec.model_copy(update=fields)}), list(problems)


def _own_command(job: TFDistJob, container: dict[str, list[str]], entry_point: Sequence[str]) -> Sequence[str]:
    """Return the command before `args`; with `training` a custom image has the trainer's default command."""
    command = container.get("command") or entry_point
    has_entry_point = "image" not in container or job.spec.training is not None
    return command or (DEFAULT_COMMAND if has_entry_point else ())


def _with_command(job: TFDistJob, role: Role, command: Sequence[str]) -> PodFields:
    """Return the role's fields with a command in the template, which takes precedence over all other fields."""
    role_fields = job.spec.fields_of(role) or _FIELDS[role].model_construct(replicas=job.spec.replicas(role))
    own_template = (
        role_fields.template.model_dump(mode="json", by_alias=True, exclude_none=True) if role_fields.template else {}
    )
    container = {"name": MAIN_CONTAINER, "command": list(command), "args": []}
    template = merge(own_template, {"spec": {"containers": [container]}}, "PodTemplateSpec")
    return role_fields.model_copy(update={"template": PodTemplate.model_validate(template)})


def _split_launcher(command: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Return the launcher's options, empty for a command without it, and the command that it runs."""
    if command and PurePath(command[0]).name == LAUNCHER:
        arguments = command[1:]
    elif list(command[1:3]) == ["-m", _MODULE]:
        arguments = command[3:]
    else:
        return (), command
    options, arguments = (arguments[:1], arguments[1:]) if arguments[:1] == [_COLD] else ((), arguments)
    return options, arguments[1:] if arguments[:1] == ["--"] else arguments
