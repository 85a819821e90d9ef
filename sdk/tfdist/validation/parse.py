"""Reads a TFDistJob and says everything that is wrong with it, all at once, each with the path of its field.

The API server has refused what the schema and CEL can see. What is checked here again is checked for jobs that
were stored under an older schema and for offline use; what is checked only here is what CEL cannot see.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from tfdist.api.v1 import TFDistJob
from tfdist.validation.problems import InvalidJob, Problem


def parse(manifest: Mapping[str, Any]) -> TFDistJob:
    """Return the job that `manifest` (the JSON of a TFDistJob) describes.

    Raises:
        InvalidJob: with every problem found.
    """
    try:
        job = TFDistJob.model_validate(manifest)
    except ValidationError as error:
        raise InvalidJob([_problem(e) for e in error.errors()]) from None
    problems = list(check(job))
    if problems:
        raise InvalidJob(problems)
    return job


def check(job: TFDistJob) -> Iterator[Problem]:
    """Yield what is wrong with a job whose fields are each well-formed."""
    yield from _one_device(job)
    yield from _something_to_run(job)
    yield from _checkpoints(job)
    yield from _generated_variables(job)


def _one_device(job: TFDistJob) -> Iterator[Problem]:
    spec = job.spec
    if spec.strategy == "OneDevice" and (spec.chief or spec.worker.replicas != 1):
        yield Problem("spec.worker.replicas", "strategy OneDevice runs one replica: set it to 1 and remove chief")


def _something_to_run(job: TFDistJob) -> Iterator[Problem]:
    spec = job.spec
    if not (spec.training or spec.command or spec.args or spec.worker.command or spec.image):
        text = "nothing to run: set training.program for the bundled trainer, or image and command"
        yield Problem("spec.training", text)


def _checkpoints(job: TFDistJob) -> Iterator[Problem]:
    spec = job.spec
    if spec.evaluation and spec.evaluation.mode != "None" and spec.checkpoint is None:
        yield Problem("spec.evaluation.mode", "evaluation restores a checkpoint: set checkpoint.directory")
    if spec.checkpoint is None:
        return
    volume = _mounted_volume(job, spec.checkpoint.directory)
    if volume and "emptyDir" in (volume.model_extra or {}):
        text = (
            f"{spec.checkpoint.directory!r} is on volume {volume.name!r}, an emptyDir, which each pod has for itself; "
            "use storage that all pods share, such as a persistentVolumeClaim"
        )
        yield Problem("spec.checkpoint.directory", text)


def _mounted_volume(job: TFDistJob, path: str) -> Any:
    """Return the volume of the job that holds `path`: the one with the longest mount path above it."""
    mounts = [*(job.spec.volume_mounts or ()), *(job.spec.worker.volume_mounts or ())]
    above = [m for m in mounts if f"{path}/".startswith(f"{m.mount_path.rstrip('/')}/")]
    if not above:
        return None
    name = max(above, key=lambda m: len(m.mount_path)).name
    volumes = [*(job.spec.volumes or ()), *(job.spec.worker.volumes or ())]
    return next((v for v in volumes if v.name == name), None)


def _generated_variables(job: TFDistJob) -> Iterator[Problem]:
    for path, fields in (
        ("spec", job.spec),
        ("spec.chief", job.spec.chief),
        ("spec.worker", job.spec.worker),
    ):
        for i, variable in enumerate((fields.env or ()) if fields else ()):
            if variable.name in {"TF_CONFIG", "TFDIST_JOB"}:
                text = f"{variable.name} is generated for each replica; remove it"
                yield Problem(f"{path}.env[{i}].name", text)


def _problem(error: Any) -> Problem:
    path = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in error["loc"]).lstrip(".")
    kind, given = error["type"], error.get("input")
    if kind == "extra_forbidden":
        return Problem(path, "unknown field; check its spelling (`kubectl explain tfdistjob.spec` lists them)")
    if kind == "missing":
        return Problem(path, "required, and absent")
    return Problem(path, f"{error['msg'][:1].lower()}{error['msg'][1:]}; got {_short(given)}")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."  # noqa: PLR2004  a line of a terminal
