"""Validates the merged pods of a job: names, images, mounts, ports, resources, GPUs and the storage of checkpoints.

The API server detects some of these errors too, but only when it creates a pod.
"""

import heapq
from collections.abc import Collection, Iterator, Mapping
from functools import partial
from typing import Any, Final

from tfdist import messages, regex
from tfdist.api.cross_field_rules import NOTHING_TO_RUN
from tfdist.api.pod_fields import PodFields
from tfdist.api.v1 import Strategy, TFDistJob
from tfdist.contract import LAUNCH_PORT, MAIN_CONTAINER, REPORT_PORT, STANDBY_PORT_OFFSET, TF_PORT_NAME, Role
from tfdist.podspec import gpu_count, merge, parse_quantity
from tfdist.render.command import DEFAULT_COMMAND
from tfdist.render.gang import gangs
from tfdist.render.template import (
    all_containers,
    main_container,
    role_template,
    template_without_script,
    tensorflow_port,
)
from tfdist.validation.api_server_rules import api_server_problems
from tfdist.validation.environment import environment_problems
from tfdist.validation.errors import FieldError
from tfdist.validation.field_source import source_path
from tfdist.validation.object_stores import object_store_problems
from tfdist.validation.programs import program_problems
from tfdist.validation.schedulers import scheduler_problems
from tfdist.validation.security_rules import security_problems

Template = Mapping[str, Any]

_RESERVED_PORTS: Final = {REPORT_PORT: "the progress report", LAUNCH_PORT: "the launcher"}
_MAX_PORT: Final = 65535
_MAX_LISTED: Final = 12


def merged_problems(job: TFDistJob, pod_defaults: Mapping[str, Any], *, programs: bool) -> Iterator[FieldError]:
    """Yield the errors of the pods of a well-formed job, merged with `podDefaults` of the installation.

    `programs`: validate the configuration of the bundled programs too.
    """
    templates = role_templates(job, pod_defaults)
    reported: set[FieldError] = set()
    for role, template in different(templates):
        for check in (
            _ports,
            _mounts,
            _requests,
            _program,
            _script,
            _images,
            api_server_problems,
            security_problems,
        ):
            for problem in check(job, role, template):
                if problem not in reported:  # a field of the job applies to all roles and is reported once
                    reported.add(problem)
                    yield problem
    if programs:
        yield from program_problems(job, templates)
    yield from _gpus(job, templates)
    yield from _standby(job, templates)
    yield from _shared_checkpoints(job, templates)
    yield from object_store_problems(job)
    yield from _ephemeral_exports(job, templates)
    yield from _patterns(job)
    yield from scheduler_problems(job)
    yield from environment_problems(job)


def role_templates(job: TFDistJob, pod_defaults: Mapping[str, Any]) -> dict[Role, dict[str, Any]]:
    """Return the template of each role of a job, merged with `podDefaults` of the installation.

    Roles with the same pod fields, or without any of their own, have the same object, which is not to be changed.
    """
    roles = dict.fromkeys(member.role for gang in gangs(job) for member in gang.members)
    by_fields: dict[int, dict[str, Any]] = {}
    templates = {}
    for role in roles:
        fields = job.spec.fields_of(role)
        key = id(fields) if _has_pod_fields(fields) else 0
        if key not in by_fields:
            requested = role_template(job, role)
            by_fields[key] = merge(pod_defaults, requested, "PodTemplateSpec") if pod_defaults else requested
        templates[role] = by_fields[key]
    return templates


def different(templates: Mapping[Role, Template]) -> Iterator[tuple[Role, Template]]:
    """Yield each template once, with the first role that has it: its errors concern the other roles too."""
    seen: set[int] = set()
    for role, template in templates.items():
        if id(template) not in seen:
            seen.add(id(template))
            yield role, template


def _has_pod_fields(fields: PodFields | None) -> bool:
    return fields is not None and not fields.model_fields_set.isdisjoint(PodFields.model_fields)


def join_names(names: Collection[str], separator: str = ", ") -> str:
    """Return names for a message: the first ones in alphabetical order, and how many more there are."""
    shown = [messages.shorten(name) for name in heapq.nsmallest(_MAX_LISTED, names)]
    more = len(names) - len(shown)
    return separator.join(shown) + (f" and {more} more" if more else "")


def without_image(template: Template) -> list[str]:
    """Return the names of the containers without an image, except `tensorflow`, which has a default image."""
    spec = template.get("spec", {})
    main = [c for c in spec.get("containers", ()) if c["name"] == MAIN_CONTAINER and "image" not in c]
    return [c["name"] for c in all_containers(template) if not c.get("image") and not any(c is m for m in main)]


def _ports(job: TFDistJob, role: Role, template: Template) -> Iterator[FieldError]:
    """Yield a port of TensorFlow's server, or of a standby process, that is reserved or too large."""
    port, standby = tensorflow_port(template), job.spec.run_policy.standby
    has_port = any(item.get("name") == TF_PORT_NAME for item in main_container(template).get("ports", ()))
    if not has_port:
        return
    path = source_path(job, role, MAIN_CONTAINER, _place_of_port)
    for number in (port, port + STANDBY_PORT_OFFSET) if standby else (port,):
        note = f" ({port} and the next port are used, the latter by the standby process)" if standby else ""
        if number in _RESERVED_PORTS:
            text = f"port {number} is used by {_RESERVED_PORTS[number]}{note}; use another port"
            yield FieldError(path, messages.invalid(port, text))
        elif number > _MAX_PORT:
            yield FieldError(path, messages.invalid(port, f"must be at most {_MAX_PORT}{note}"))


def _place_of_port(container: Mapping[str, Any]) -> str | None:
    ports = enumerate(container.get("ports", ()))
    return next((f".ports[{i}].containerPort" for i, port in ports if port.get("name") == TF_PORT_NAME), None)


def _mounts(job: TFDistJob, role: Role, template: Template) -> Iterator[FieldError]:
    volumes = {v["name"] for v in template.get("spec", {}).get("volumes", ())}
    for container in all_containers(template):
        for name in dict.fromkeys(mount["name"] for mount in container.get("volumeMounts", ())):
            if name not in volumes:
                path = source_path(job, role, container["name"], partial(_place_of_mount, name))
                volume_names = f"the pod has {join_names(volumes)}" if volumes else "the pod has none"
                text = f"no volume has this name, {volume_names}; correct the name, or add it to volumes"
                yield FieldError(path, messages.invalid(name, text))


def _place_of_mount(name: str, container: Mapping[str, Any]) -> str | None:
    mounts = enumerate(container.get("volumeMounts", ()))
    return next((f".volumeMounts[{i}].name" for i, mount in mounts if mount["name"] == name), None)


def _requests(job: TFDistJob, role: Role, template: Template) -> Iterator[FieldError]:
    """Yield requests beyond their limit."""
    for container in all_containers(template):
        resources = container.get("resources", {})
        limits = resources.get("limits", {})
        for name, request in resources.get("requests", {}).items():
            if name in limits and parse_quantity(request) > parse_quantity(limits[name]):
                path = source_path(job, role, container["name"], partial(_place_of_request, name))
                text = f"must be less than or equal to the limit of {limits[name]}"
                yield FieldError(path, messages.invalid(request, text))


def _place_of_request(name: str, container: Mapping[str, Any]) -> str | None:
    if name not in container.get("resources", {}).get("requests", {}):
        return None
    return messages.child_path(".resources.requests", name)


def _program(job: TFDistJob, role: Role, template: Template) -> Iterator[FieldError]:
    """Yield an error for a role without a program: no `training`, and no image, command or arguments."""
    main = main_container(template)
    if job.spec.training or any(main.get(name) for name in ("image", "command", "args")):
        return
    other_names = [c["name"] for c in template.get("spec", {}).get("containers", ()) if c["name"] != MAIN_CONTAINER]
    if other_names:
        path = source_path(job, role, other_names[0], lambda _: ".name")
        names = join_names(other_names, " or ")
        text = f"one container must be named {MAIN_CONTAINER}, the one that trains; rename {names}"
        yield FieldError(path, text)
    else:
        yield FieldError("spec.training", NOTHING_TO_RUN)


def _script(job: TFDistJob, role: Role, template: Template) -> Iterator[FieldError]:
    """Yield `command` and `args` of a role whose command is `training.script`."""
    if job.spec.training is None or job.spec.training.script is None:
        return
    command = main_container(template_without_script(job, role)).get("command")
    for name, value in (("command", command), ("args", main_container(template).get("args"))):
        if value:
            path = source_path(job, role, MAIN_CONTAINER, partial(_place_of_list, name))
            text = f"the container runs training.script; remove {name} and set training.args, or remove script"
            yield FieldError(path, messages.forbidden(text))


def _place_of_list(name: str, container: Mapping[str, Any]) -> str | None:
    return f".{name}" if container.get(name) else None


def _images(job: TFDistJob, role: Role, template: Template) -> Iterator[FieldError]:
    """Yield containers without an image; only `tensorflow` has a default one."""
    for container in without_image(template):
        path = source_path(job, role, container, lambda _: ".image")
        text = messages.required(f"only the container {MAIN_CONTAINER} has a default image")
        yield FieldError(path, text)


def _gpus(job: TFDistJob, templates: Mapping[Role, Template]) -> Iterator[FieldError]:
    """Yield different numbers of GPUs of chief and workers: MultiWorkerMirroredStrategy splits each batch evenly."""
    if job.spec.strategy is not Strategy.MULTI_WORKER_MIRRORED or not {Role.CHIEF, Role.WORKER} <= templates.keys():
        return
    chief, worker = (gpu_count(main_container(templates[role])) for role in (Role.CHIEF, Role.WORKER))
    if chief != worker:
        text = f"the chief has {chief} GPUs and each worker {worker}, but the strategy requires equal numbers"
        yield FieldError("spec.chief.resources.limits", f"{text}; set resources once, on the job")


def _standby(job: TFDistJob, templates: Mapping[Role, Template]) -> Iterator[FieldError]:
    """Yield a replica that cannot have a standby process: it has a GPU, whose memory is taken, or no launcher."""
    if not job.spec.run_policy.standby:
        return
    path = "spec.runPolicy.standby"
    for role, template in templates.items():
        if role in {Role.EVALUATOR, Role.EVALUATION}:
            continue
        main = main_container(template)
        if gpu_count(main):
            text = messages.forbidden(f"a GPU of {role} has no memory for a standby process; remove standby or the GPU")
            yield FieldError(path, text)
            return
        command = [argument for key in ("command", "args") for argument in main.get(key, ())]
        if command and command != list(DEFAULT_COMMAND):
            text = f"{role} sets its own command, but a standby process requires the bundled trainer"
            yield FieldError(path, messages.forbidden(f"{text}; remove standby, or command and args"))
            return


def _shared_checkpoints(job: TFDistJob, templates: Mapping[Role, Template]) -> Iterator[FieldError]:
    """Yield an error for a checkpoint directory that the pods do not share: each would save and restore separately."""
    checkpoint = job.spec.checkpoint
    several = sum(len(gang.members) for gang in gangs(job)) > 1
    if checkpoint is None or not several or not checkpoint.directory.startswith("/"):
        return
    if place := _ephemeral_storage(templates, checkpoint.directory):
        fact = f"the directory is {place}, which is not shared by the pods"
        text = f"{fact}; set checkpoint.volume, for example to a persistentVolumeClaim"
        yield FieldError("spec.checkpoint.directory", messages.invalid(checkpoint.directory, text))


def _ephemeral_exports(job: TFDistJob, templates: Mapping[Role, Template]) -> Iterator[FieldError]:
    """Yield an error for an export directory that is removed with its pod."""
    export = job.spec.training.export if job.spec.training else None
    if export is None or export.directory is None or not export.directory.startswith("/"):
        return
    if place := _ephemeral_storage(templates, export.directory):
        text = f"the directory is {place}, which is deleted with the pod; mount a volume there, or remove it"
        yield FieldError("spec.training.export.directory", messages.invalid(export.directory, text))


def _ephemeral_storage(templates: Mapping[Role, Template], path: str) -> str:
    """Return the storage of `path` in the first pod if it belongs to the pod alone; "" if it does in none."""
    for template in templates.values():
        volume = _volume_at(template, path)
        if volume is None:
            return "in the file system of the container"
        if "emptyDir" in volume:
            return f"on volume {volume['name']}, an emptyDir"
    return ""


def _volume_at(template: Template, path: str) -> Mapping[str, Any] | None:
    """Return the volume of `path`: the one with the longest mount path above it."""
    mounts = main_container(template).get("volumeMounts", ())
    above = [m for m in mounts if f"{path}/".startswith(f"{m['mountPath'].rstrip('/')}/")]
    if not above:
        return None
    name = max(above, key=lambda m: len(m["mountPath"]))["name"]
    return next((v for v in template["spec"].get("volumes", ()) if v["name"] == name), None)


def _patterns(job: TFDistJob) -> Iterator[FieldError]:
    """Yield invalid regular expressions of the failure policy."""
    policy = job.spec.failure_policy
    for i, rule in enumerate(policy.rules if policy else ()):
        pattern = rule.on_message_pattern
        if pattern is not None and (reason := regex.syntax_error(pattern)):
            text = messages.invalid(pattern, f"must be a regular expression (RE2 syntax): {reason}")
            yield FieldError(f"spec.failurePolicy.rules[{i}].onMessagePattern", text)
