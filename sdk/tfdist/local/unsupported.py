"""Settings of a job that have no effect in a local run, each with a reason: none is ignored silently; pure."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tfdist import contract
from tfdist.api.v1 import TFDistJob
from tfdist.render.gang import gangs
from tfdist.render.template import main_container, role_template

_CONTAINER: Final = {
    "image": "the command runs with this machine's programs",
    "resources": "nothing is reserved or limited here, but a replica that requests no GPU sees none",
    "lifecycle": "no hook is called",
    **dict.fromkeys(("livenessProbe", "readinessProbe", "startupProbe"), "nothing is probed here"),
}
_HANDLED_POD_FIELDS: Final = frozenset({"containers", "initContainers", "terminationGracePeriodSeconds", "volumes"})
"""Fields of a pod that take effect or are reported separately."""

_RUN_POLICY: Final = {
    "suspend": "the command runs the job",
    "standby": "there are no standby processes here",
}
_POLICIES: Final = {
    "scheduling": "there is one machine",
    "tensor_board": "run tensorboard --logdir on the checkpoint folder",
}


def unsupported_fields(job: TFDistJob) -> list[str]:
    """Return a line for each setting of a job that a local run ignores."""
    fields: dict[str, str] = {}
    for role in sorted({member.role for gang in gangs(job) for member in gang.members}):
        for field, reason in _pod_settings(role_template(job, role)):
            fields.setdefault(field, reason)
    return [f"{field}: {reason}" for field, reason in [*fields.items(), *_job_settings(job)]]


def _pod_settings(template: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    main, spec = main_container(template), template.get("spec", {})
    yield from ((field, reason) for field, reason in _CONTAINER.items() if field in main)
    for field, kind in (("containers", "container"), ("initContainers", "init container")):
        names = [item["name"] for item in spec.get(field, ()) if item["name"] != contract.MAIN_CONTAINER]
        yield from ((f"{kind} {name}", "not started here") for name in names)
    fields = sorted(spec.keys() - _HANDLED_POD_FIELDS)
    if fields:
        yield ", ".join(fields), "for pods in a cluster only"


def _job_settings(job: TFDistJob) -> Iterator[tuple[str, str]]:
    for model, table in ((job.spec, _POLICIES), (job.spec.run_policy, _RUN_POLICY)):
        for name, reason in table.items():
            field = type(model).model_fields[name]
            if getattr(model, name) != field.get_default(call_default_factory=True, validated_data={}):
                yield field.alias or name, reason
