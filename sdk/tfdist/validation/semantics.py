"""Checks what only the merged pods show: images, GPUs, storage behind a path, mounts, amounts, patterns."""

from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import partial
from typing import Any

from pydantic_core import SchemaError, SchemaValidator, core_schema

from tfdist.api.v1 import Strategy, TFDistJob
from tfdist.contract import MAIN_CONTAINER, Role
from tfdist.podspec import merge, parse_quantity
from tfdist.render.defaults import DEFAULT_COMMAND
from tfdist.render.gang import gangs
from tfdist.render.template import main_container, role_template
from tfdist.validation.origin import origin
from tfdist.validation.problems import Problem
from tfdist.validation.wording import below

Template = Mapping[str, Any]


def merged_problems(job: TFDistJob, pod_defaults: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield what is wrong with the pods that a well-formed job asks for, on top of an installation's defaults."""
    roles = dict.fromkeys(member.role for gang in gangs(job) for member in gang.members)
    templates = {role: merge(pod_defaults, role_template(job, role), "PodTemplateSpec") for role in roles}
    seen: set[Problem] = set()
    for role, template in templates.items():
        for check in (_mounts, _amounts, _to_run, _images):
            for problem in check(job, role, template):
                if problem not in seen:  # what the job says for all roles is wrong once
                    seen.add(problem)
                    yield problem
    yield from _gpus(job, templates)
    yield from _standby(job, templates)
    yield from _shared_checkpoints(job, templates)
    yield from _patterns(job)


def _containers(template: Template) -> Iterator[Mapping[str, Any]]:
    spec = template.get("spec", {})
    yield from spec.get("initContainers", ())
    yield from spec.get("containers", ())


def _mounts(job: TFDistJob, role: Role, template: Template) -> Iterator[Problem]:
    volumes = {v["name"] for v in template.get("spec", {}).get("volumes", ())}
    for container in _containers(template):
        for mount in container.get("volumeMounts", ()):
            if mount["name"] not in volumes:
                path = origin(job, role, container["name"], partial(_place_of_mount, mount["name"]))
                there = f"there are {', '.join(sorted(volumes))}" if volumes else "there is none"
                text = f"no volume is called {mount['name']!r}; {there}: correct the name, or add it to volumes"
                yield Problem(path, text)


def _place_of_mount(name: str, container: Mapping[str, Any]) -> str | None:
    names = [mount["name"] for mount in container.get("volumeMounts", ())]
    return f".volumeMounts[{names.index(name)}].name" if name in names else None


def _amounts(job: TFDistJob, role: Role, template: Template) -> Iterator[Problem]:
    for container in _containers(template):
        resources = container.get("resources", {})
        limits = resources.get("limits", {})
        for name, request in resources.get("requests", {}).items():
            if name in limits and parse_quantity(request) > parse_quantity(limits[name]):
                path = origin(job, role, container["name"], partial(_place_of_request, name))
                text = f"{request} is more than the limit, {limits[name]}: lower the request or raise the limit"
                yield Problem(path, text)


def _place_of_request(name: str, container: Mapping[str, Any]) -> str | None:
    if name not in container.get("resources", {}).get("requests", {}):
        return None
    return below(".resources.requests", name)


def _to_run(job: TFDistJob, role: Role, template: Template) -> Iterator[Problem]:
    """Yield that a role has neither a program nor an image or command of its own."""
    main = main_container(template)
    if job.spec.training or any(main.get(name) for name in ("image", "command", "args")):
        return
    others = [c["name"] for c in template.get("spec", {}).get("containers", ()) if c["name"] != MAIN_CONTAINER]
    if others:
        path = origin(job, role, others[0], lambda _: ".name")
        text = f"no container is called {MAIN_CONTAINER}, the one that trains: rename {' or '.join(others)} to it"
        yield Problem(path, text)
    else:
        yield Problem("spec.training", "nothing to run: set training.program for the bundled trainer, or image")


def _images(job: TFDistJob, role: Role, template: Template) -> Iterator[Problem]:
    """Yield containers that no image is named for; the one that trains gets the installation's where it names none."""
    for container in without_image(template):
        path = origin(job, role, container, lambda _: ".image")
        text = f"no image is named for {container!r}: name one; only the container {MAIN_CONTAINER} can do without"
        yield Problem(path, text)


def without_image(template: Template) -> list[str]:
    """Return the names of the containers of a template that lack an image and get none from the controller."""
    spec = template.get("spec", {})
    main = [c for c in spec.get("containers", ()) if c["name"] == MAIN_CONTAINER and "image" not in c]
    return [c["name"] for c in _containers(template) if not c.get("image") and not any(c is m for m in main)]


def _gpus(job: TFDistJob, templates: Mapping[Role, Template]) -> Iterator[Problem]:
    """Yield that chief and workers differ: MultiWorkerMirroredStrategy splits each batch evenly."""
    if job.spec.strategy is not Strategy.MULTI_WORKER_MIRRORED or not {Role.CHIEF, Role.WORKER} <= templates.keys():
        return
    chief, worker = (gpus_of(templates[role]) for role in (Role.CHIEF, Role.WORKER))
    if chief != worker:
        text = f"the chief has {chief} GPUs and each worker {worker}, and the strategy needs the same number on all"
        yield Problem("spec.chief.resources.limits", f"{text}; give resources once, at the job")


def _standby(job: TFDistJob, templates: Mapping[Role, Template]) -> Iterator[Problem]:
    """Yield that a replica cannot have a program in reserve: it has no launcher, or a GPU, whose memory is taken."""
    if not job.spec.run_policy.standby:
        return
    path = "spec.runPolicy.standby"
    for role, template in templates.items():
        if role in {Role.EVALUATOR, Role.EVALUATION}:
            continue
        if gpus_of(template):
            yield Problem(path, f"a GPU of {role} has no memory for a second program: remove standby, or the GPU")
            return
        command = [word for key in ("command", "args") for word in main_container(template).get(key, ())]
        if command and command != list(DEFAULT_COMMAND):
            text = f"{role} has a command of its own, and only the bundled trainer can wait in reserve"
            yield Problem(path, f"{text}: remove standby, or command and args")
            return


def gpus_of(template: Template) -> Fraction:
    """Return how many GPUs the container `tensorflow` asks for, of whichever vendor."""
    limits = main_container(template).get("resources", {}).get("limits", {})
    return sum((parse_quantity(v) for k, v in limits.items() if k.partition("/")[2] == "gpu"), Fraction())


def _shared_checkpoints(job: TFDistJob, templates: Mapping[Role, Template]) -> Iterator[Problem]:
    """Yield that the pods do not share the storage of the checkpoints: each would save and restore alone."""
    checkpoint = job.spec.checkpoint
    several = sum(len(gang.members) for gang in gangs(job)) > 1
    if checkpoint is None or not several or not checkpoint.directory.startswith("/"):
        return
    remedy = "use storage that all pods share: set checkpoint.volume, for example to a persistentVolumeClaim"
    for template in templates.values():
        volume = _volume_at(template, checkpoint.directory)
        if volume is None:
            text = f"{checkpoint.directory!r} is in the container's own file system, which each pod has for itself"
        elif "emptyDir" in volume:
            text = (
                f"{checkpoint.directory!r} is on volume {volume['name']!r}, an emptyDir, which each pod has for itself"
            )
        else:
            continue
        yield Problem("spec.checkpoint.directory", f"{text}; {remedy}")
        return


def _volume_at(template: Template, path: str) -> Mapping[str, Any] | None:
    """Return the volume that holds `path`: the one mounted at the longest path above it."""
    mounts = main_container(template).get("volumeMounts", ())
    above = [m for m in mounts if f"{path}/".startswith(f"{m['mountPath'].rstrip('/')}/")]
    if not above:
        return None
    name = max(above, key=lambda m: len(m["mountPath"]))["name"]
    return next((v for v in template["spec"].get("volumes", ()) if v["name"] == name), None)


def _patterns(job: TFDistJob) -> Iterator[Problem]:
    policy = job.spec.failure_policy
    for i, rule in enumerate(policy.rules if policy else ()):
        if rule.on_message_pattern is None:
            continue
        try:
            SchemaValidator(core_schema.str_schema(pattern=rule.on_message_pattern))
        except SchemaError as error:
            reason = str(error).strip().splitlines()[-1].removeprefix("error: ")
            text = f"not a regular expression: {reason}; got {rule.on_message_pattern!r}"
            yield Problem(f"spec.failurePolicy.rules[{i}].onMessagePattern", text)
