"""What a job says that has no meaning on one machine: a line for each, so that nothing is dropped in silence; pure."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tfdist import contract
from tfdist.api.v1 import TFDistJob
from tfdist.contract import Role
from tfdist.render.template import main_container, role_template

_CONTAINER: Final = {
    "image": "the command runs with this machine's programs",
    "resources": "nothing is reserved or limited here, but who asks for no GPU sees none",
    "lifecycle": "no hook is called",
    **dict.fromkeys(("livenessProbe", "readinessProbe", "startupProbe"), "nothing is probed here"),
}
_MEANT: Final = frozenset({"containers", "initContainers", "terminationGracePeriodSeconds", "volumes"})
"""Fields of a pod that are acted on, or told of by themselves."""

_RUN_POLICY: Final = {
    "suspend": "you asked to run it",
    "progress_deadline_seconds": "watch the progress yourself",
    "standby": "no program waits in reserve here",
}
_POLICIES: Final = {
    "elastic": "it runs with as many workers as `worker.replicas`",
    "oom_policy": "memory is not limited here",
    "failure_policy": "a failure ends a local run, with the replica's exit code",
    "scheduling": "one machine has one place",
    "tensor_board": "run tensorboard --logdir on the checkpoint folder",
}


_LAUNCHERS: Final = frozenset({"failure_policy", "progress_deadline_seconds"})
"""What the launcher acts on."""


def notes(job: TFDistJob, roles: frozenset[Role], *, launcher: bool = False) -> list[str]:
    """Return a line for everything in a job's `roles` that a local run, with `launcher` or not, does without."""
    found: dict[str, str] = {}
    for role in sorted(roles):
        for field, why in _of_template(role_template(job, role)):
            found.setdefault(field, why)
    return [
        f"{field}: {why}" for field, why in [*found.items(), *_of_job(job, _LAUNCHERS if launcher else frozenset())]
    ]


def _of_template(template: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    main, spec = main_container(template), template.get("spec", {})
    yield from ((field, why) for field, why in _CONTAINER.items() if field in main)
    for field, kind in (("containers", "container"), ("initContainers", "init container")):
        names = [item["name"] for item in spec.get(field, ()) if item["name"] != contract.MAIN_CONTAINER]
        yield from ((f"{kind} {name}", "not started here") for name in names)
    fields = sorted(spec.keys() - _MEANT)
    if fields:
        yield ", ".join(fields), "of a cluster's pods"


def _of_job(job: TFDistJob, acted_on: frozenset[str]) -> Iterator[tuple[str, str]]:
    for model, table in ((job.spec, _POLICIES), (job.spec.run_policy, _RUN_POLICY)):
        for name, why in ((name, why) for name, why in table.items() if name not in acted_on):
            field = type(model).model_fields[name]
            if getattr(model, name) != field.get_default(call_default_factory=True, validated_data={}):
                yield field.alias or name, why
