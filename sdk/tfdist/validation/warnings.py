"""Warnings about a valid job that probably does not behave as intended.

`tfdist validate` prints them, and the admission webhook returns them to `kubectl apply`; neither rejects the job.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from tfdist.api.pod_fields import PodFields
from tfdist.api.v1 import TFDistJob
from tfdist.contract import JOB_ENV, MAIN_CONTAINER, Role
from tfdist.render.template import main_container
from tfdist.validation.errors import FieldError
from tfdist.validation.field_source import source_path
from tfdist.validation.merged_pods import role_templates
from tfdist.validation.programs import program_warnings

_NO_DEFAULTS: Final[Mapping[str, Any]] = MappingProxyType({})
_READS_TRAINING: Final = ("tfdist_trainer", JOB_ENV)
"""A command that contains one of these starts the bundled trainer, or reads `training`."""


def warnings(
    job: TFDistJob, pod_defaults: Mapping[str, Any] = _NO_DEFAULTS, *, programs: bool = True
) -> list[FieldError]:
    """Return the warnings about a valid job, each with the path of its field and the remedy.

    Args:
        job: a job returned by `parse`.
        pod_defaults: partial pod template of the installation, which every job overrides.
        programs: whether the trainer image of the installation has the bundled programs; see `parse`.
    """
    templates = role_templates(job, pod_defaults)
    found: dict[FieldError, None] = dict.fromkeys(program_warnings(job, templates) if programs else ())
    for role, template in templates.items():
        for check in (_host_network, _training_ignored):
            found |= dict.fromkeys(check(job, role, template))
    return list(found)


def _host_network(job: TFDistJob, role: Role, template: Mapping[str, Any]) -> Iterator[FieldError]:
    if template.get("spec", {}).get("hostNetwork"):
        text = (
            "pods with hostNetwork are not subject to the job's NetworkPolicy, and two replicas on one node need the "
            "same ports; remove it unless the program requires it"
        )
        yield FieldError(_level_of_pod_field(job, role, "hostNetwork"), text)


def _training_ignored(job: TFDistJob, role: Role, template: Mapping[str, Any]) -> Iterator[FieldError]:
    main = main_container(template)
    command = [*main.get("command", ()), *main.get("args", ())]
    if (
        job.spec.training is None
        or "command" not in main
        or any(mark in w for w in command for mark in _READS_TRAINING)
    ):
        return
    text = (
        f"the command does not start the bundled trainer (python -m tfdist_trainer); training is ignored unless the "
        f"program reads it from {JOB_ENV}; remove command, or training"
    )
    yield FieldError(source_path(job, role, MAIN_CONTAINER, lambda c: ".command" if "command" in c else None), text)


def _level_of_pod_field(job: TFDistJob, role: Role, name: str) -> str:
    """Return the path of a pod field in the highest level that sets it, or `spec` where the installation sets it."""
    own: PodFields | None = job.spec.fields_of(role)
    title = Role.WORKER if role is Role.EVALUATION else role
    for path, fields in ((f"spec.{title}", own), ("spec", job.spec)):
        template = fields.template if fields else None
        if template and template.spec and name in (template.spec.model_extra or {}):
            return f"{path}.template.spec.{name}"
    return "spec"
