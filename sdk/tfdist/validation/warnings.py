"""Warnings about a valid job that probably does not behave as intended.

`tfdist validate` prints them, and the admission webhook returns them to `kubectl apply`; neither rejects the job.
"""

import json
from collections.abc import Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from tfdist.api.v1 import Strategy, TFDistJob
from tfdist.contract import JOB_ENV, MAIN_CONTAINER, Role
from tfdist.render.template import all_containers, main_container, template_without_script
from tfdist.validation.api_server_rules import container_ports
from tfdist.validation.errors import FieldError, first, limit_errors
from tfdist.validation.field_source import pod_field_path, source_path
from tfdist.validation.merged_pods import Template, different, join_names, role_templates
from tfdist.validation.pod_names import pod_name_warnings

_NO_DEFAULTS: Final[Mapping[str, Any]] = MappingProxyType({})
KERAS: Final = ">=3.10.0,<3.16"
"""Versions of Keras whose `fit` the trainer extends; `tfdist_trainer.upstream.versions` has the same."""
_FIT_ENV: Final = "TFDIST_KERAS_FIT"
_PROBES: Final = ("startupProbe", "readinessProbe", "livenessProbe")
_READS_TRAINING: Final = ("tfdist_trainer", JOB_ENV)
"""A command that contains one of these starts the bundled trainer, or reads `training`."""


def warnings(job: TFDistJob, pod_defaults: Mapping[str, Any] = _NO_DEFAULTS) -> list[FieldError]:
    """Return the warnings about a valid job, each with the path of its field and the remedy; of many, as `limited`.

    Args:
        job: a job returned by `parse`.
        pod_defaults: partial pod template of the installation, which every job overrides.
    """
    found: dict[FieldError, None] = {}
    for role, template in different(role_templates(job, pod_defaults)):
        for check in _CHECKS:
            found |= dict.fromkeys(first(check(job, role, template)))
    return limit_errors(found, "warning")


def _host_network(job: TFDistJob, role: Role, template: Mapping[str, Any]) -> Iterator[FieldError]:
    if template.get("spec", {}).get("hostNetwork"):
        text = (
            "pods with hostNetwork are not subject to the job's NetworkPolicy, and two replicas on one node need the "
            "same ports; remove it unless the program requires it"
        )
        yield FieldError(pod_field_path(job, role, "hostNetwork"), text)


def _training_ignored(job: TFDistJob, role: Role, template: Mapping[str, Any]) -> Iterator[FieldError]:
    main = main_container(template)
    command = [*main.get("command", ()), *main.get("args", ())]
    if (
        not job.spec.runs_program
        or "command" not in main
        or any(mark in w for w in command for mark in _READS_TRAINING)
    ):
        return
    text = (
        f"the command does not start the bundled trainer (python -m tfdist_trainer); training is ignored unless the "
        f"program reads it from {JOB_ENV}; remove command, or training"
    )
    yield FieldError(source_path(job, role, MAIN_CONTAINER, lambda c: ".command" if "command" in c else None), text)


def _needs_trainer(job: TFDistJob, role: Role, _: Template) -> Iterator[FieldError]:
    """Yield an image of the user's for a script from which the job requests what only `tfdist-trainer` does."""
    spec = job.spec
    own_image = "image" in main_container(template_without_script(job, role))
    if spec.training is None or spec.training.script is None or role is Role.PS or not own_image:
        return
    names = _requested_of_fit(job)
    if names:
        text = (
            f"{' and '.join(names)} of a script needs tfdist-trainer and keras{KERAS} in the image, which are not "
            "visible here; install them (pip install tfdist-trainer), or let the script do it by itself"
        )
        yield FieldError(source_path(job, role, MAIN_CONTAINER, lambda c: ".image" if "image" in c else None), text)


def _fit_left_to_keras(job: TFDistJob, role: Role, template: Template) -> Iterator[FieldError]:
    """Yield a variable that keeps the trainer from what the job requests of `fit`."""
    if job.spec.runs_program or role in {Role.PS, Role.EVALUATOR}:
        return
    values = {each["name"]: each.get("value") or "" for each in main_container(template).get("env", ())}
    value = values.get(_FIT_ENV, "").lower()
    trains_alone = value == "alone" and job.spec.strategy is Strategy.MULTI_WORKER_MIRRORED
    names = _requested_of_fit(job)
    if names and (value == "off" or (trains_alone and job.spec.replicas(Role.WORKER) > 1)):
        text = (
            f"with {_FIT_ENV}={value} fit neither saves, reports evaluations nor exports, so {' and '.join(names)} has "
            "no effect unless the script does it by itself; remove the variable, or the field"
        )
        yield FieldError(source_path(job, role, MAIN_CONTAINER, _place_of_fit_env), text)


def _place_of_fit_env(container: Mapping[str, Any]) -> str | None:
    names = [each["name"] for each in container.get("env", ())]
    return f".env[{names.index(_FIT_ENV)}]" if _FIT_ENV in names else None


def _requested_of_fit(job: TFDistJob) -> list[str]:
    spec = job.spec
    export = spec.training.export if spec.training else None
    requested = {"checkpoint": spec.checkpoint, "evaluation": spec.evaluation, "training.export": export}
    return [name for name, value in requested.items() if value is not None]


def _unknown_port_names(job: TFDistJob, role: Role, template: Mapping[str, Any]) -> Iterator[FieldError]:
    """Yield probes and hooks with the name of a port that their container does not have: they never succeed."""
    for container in all_containers(template):
        known = {port["name"] for port in container_ports(template, container) if port.get("name")}
        for place, port in _ports_by_name(container):
            if port not in known:
                names = f"it has {join_names(known)}" if known else "it has none with a name"
                text = f"the container has no port {json.dumps(port)}, {names}; correct the name, or write the number"
                find = partial(_place_of_port_name, place)
                yield FieldError(source_path(job, role, container["name"], find), text)


def _ports_by_name(container: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the path and the value of each port that a probe or hook of a container refers to by name."""
    handlers = {name: container[name] for name in _PROBES if name in container}
    handlers |= {f"lifecycle.{name}": handler for name, handler in container.get("lifecycle", {}).items()}
    for place, handler in handlers.items():
        for action in ("httpGet", "tcpSocket"):
            port = handler.get(action, {}).get("port") if isinstance(handler, dict) else None
            if isinstance(port, str) and not port.isdecimal():
                yield f".{place}.{action}.port", port


def _place_of_port_name(place: str, container: Mapping[str, Any]) -> str | None:
    return place if place in dict(_ports_by_name(container)) else None


_CHECKS: Final = (
    _host_network,
    _training_ignored,
    _needs_trainer,
    _fit_left_to_keras,
    _unknown_port_names,
    pod_name_warnings,
)
