"""Jobs of task `Evaluate`: of a checkpoint of another job, as that one would have evaluated it, or of an ensemble."""

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tfdist.api.resource import API_VERSION, KIND
from tfdist.api.status import EvaluationResult
from tfdist.api.sweep import TFDistSweep
from tfdist.api.sweep_resource import PARAMETERS_ENV, TRIAL_ENV
from tfdist.api.sweep_status import BestTrial
from tfdist.api.training import PLACEHOLDERS
from tfdist.api.v1 import Strategy
from tfdist.client.api_server import Json
from tfdist.client.errors import NotPossible
from tfdist.client.job import Job
from tfdist.client.sweep import Sweep
from tfdist.contract import Task
from tfdist.programs.config import ProgramConfig
from tfdist.render.names import OWN_LABEL_PREFIX
from tfdist.render.template import mount_path
from tfdist.sweeps.trial import job_with_values
from tfdist.validation import ValidationFailed
from tfdist.validation.sweep import parse_sweep

LATEST: Final = "latest"
BEST: Final = "best"

_PREFIX_CHARACTERS: Final = 28
"""Of the evaluated job's name: with `-evaluation-` and the characters of `generateName` the name has at most 45."""
_ROLES: Final = ("chief", "ps", "evaluator")
_OF_TRAINING: Final = (*_ROLES, "tensorBoard", "successPolicy", "elastic", "oomPolicy")
_KEPT_OF_CHECKPOINT: Final = ("directory", "volume")
_KEPT_OF_EVALUATION: Final = ("metric", "goal")
_DROPPED_OF_POLICY: Final = ("suspend", "standby", "updateStrategy")
_TRAINING_CONFIG: Final = frozenset(str(field.alias) for field in ProgramConfig.model_fields.values())
"""Fields of `training.config` that concern how a model is trained, and neither the model nor its data."""
_OF_TRIAL: Final = (TRIAL_ENV, PARAMETERS_ENV)


def evaluation_job(
    job: Job, *, checkpoint: str = LATEST, name: str | None = None, workers: int | None = None
) -> dict[str, Any]:
    """Return the manifest of a job that evaluates a checkpoint of a stored job once, without training.

    Args:
        job: the job that has trained, or trains.
        checkpoint: `latest`, `best`, or a step.
        name: name of the new job; default: the job's name, `-evaluation-` and five characters.
        workers: replicas; default: as many as evaluate after training, else as many as train.

    Raises:
        NotPossible: the job runs no program, or does not have the checkpoint.
    """
    _check_program(job)
    restore = _restore(job, checkpoint)
    manifest = evaluating(job, f"{_prefix(job.name)}-evaluation-", name, workers)
    manifest["spec"]["checkpoint"]["restore"] = restore
    _resolve_directory(manifest["spec"], job.manifest["metadata"])
    return manifest


def evaluating(job: Job, prefix: str, name: str | None, workers: int | None) -> dict[str, Any]:
    """Return the manifest of a job with the program, data and storage of `job`, which evaluates and does not train.

    Without a `name` the API server makes one that begins with `prefix`.
    """
    spec = copy.deepcopy({key: value for key, value in job.spec.items() if key not in _OF_TRAINING})
    worker = spec.get("worker") or job.spec.get("chief") or {}
    spec |= {"task": str(Task.EVALUATE), "worker": dict(worker) | {"replicas": workers or _size(job.spec)}}
    spec["training"].pop("export", None)
    spec["checkpoint"] = {key: spec["checkpoint"][key] for key in _KEPT_OF_CHECKPOINT if key in spec["checkpoint"]}
    _drop(spec, "runPolicy", _DROPPED_OF_POLICY)
    _drop(spec, "scheduling", ("minAvailable",))
    _keep(spec, "evaluation", _KEPT_OF_EVALUATION)
    if spec.get("strategy") == Strategy.PARAMETER_SERVER:
        del spec["strategy"]  # the workers of the default strategy read the same checkpoints
    metadata: Json = {"name": name} if name else {"generateName": prefix}
    labels = job.manifest["metadata"].get("labels") or {}
    if inherited := {key: value for key, value in labels.items() if not key.startswith(OWN_LABEL_PREFIX)}:
        metadata["labels"] = inherited  # such as the one of a queue
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata | {"namespace": job.namespace}, "spec": spec}


def _check_program(job: Job) -> None:
    training = job.spec.get("training") or {}
    if training.get("program"):
        return
    program = "a script" if training.get("script") else "an image or command of its own"
    raise NotPossible(
        f'job "{job.name}" runs {program}, not a training.program that could be evaluated: evaluate in it, such as by '
        "fit(..., validation_data=...), whose results `tfdist describe` shows"
    )


def _size(spec: Mapping[str, Any]) -> int:
    replicas = (spec.get("evaluation") or {}).get("replicas")
    if replicas:
        return int(replicas)
    counts = [int(spec[role].get("replicas", 1)) for role in ("chief", "worker") if spec.get(role) is not None]
    return sum(counts) or 1


def _restore(job: Job, choice: str) -> str:
    """Return the value of `checkpoint.restore`."""
    if not job.spec.get("checkpoint"):
        raise NotPossible(f'job "{job.name}" writes no checkpoints to evaluate: checkpoint.directory is not set')
    evaluation, progress = job.status.evaluation, job.status.progress
    if choice == BEST:
        best = evaluation.best if evaluation else None
        if best is None or best.checkpoint is None:
            raise NotPossible(
                f'job "{job.name}" has no best checkpoint: none has been evaluated yet (evaluation.mode); use '
                "--checkpoint latest"
            )
        return best.checkpoint
    last = progress.last_checkpoint if progress else None
    results = list(_evaluation_results(job))
    if last is None and not results:
        raise NotPossible(f'job "{job.name}" has no checkpoint yet (phase {job.phase}): wait until it has written one')
    if choice == LATEST:
        return "Latest"
    if not choice.isdecimal():
        raise NotPossible(f"--checkpoint {choice}: write a step, latest or best")
    checkpoints = {result.step: result.checkpoint for result in results} | ({last.step: last.path} if last else {})
    return checkpoints.get(int(choice)) or checkpoint_name(int(choice))


def checkpoint_name(step: int) -> str:
    """Return the name of a checkpoint of the bundled trainer in its directory."""
    return f"checkpoint-{step:09d}"


def _evaluation_results(job: Job) -> Iterator[EvaluationResult]:
    evaluation = job.status.evaluation
    yield from filter(None, (evaluation.latest, evaluation.best, evaluation.final) if evaluation else ())


def _resolve_directory(spec: Json, metadata: Mapping[str, Any]) -> None:
    """Replace the placeholders of the directory: they stand for the evaluated job, not for the new one.

    A volume for the directory is mounted above its first placeholder, so it becomes one of the volumes.
    """
    checkpoint = spec["checkpoint"]
    directory = checkpoint["directory"]
    for field in PLACEHOLDERS:
        checkpoint["directory"] = checkpoint["directory"].replace(f"{{{field}}}", str(metadata[field]))
    if directory == checkpoint["directory"] or "volume" not in checkpoint:
        return
    path, source = mount_path(directory), checkpoint.pop("volume")
    volumes, mounts = spec.setdefault("volumes", []), spec.setdefault("volumeMounts", [])
    if all(mount["mountPath"] != path for mount in mounts):
        names = {volume["name"] for volume in volumes}
        name = next(
            candidate
            for candidate in ("checkpoints", *(f"checkpoints-{n}" for n in range(100)))
            if candidate not in names
        )
        volumes.append({"name": name} | source)
        mounts.append({"name": name, "mountPath": path})


def _drop(spec: Json, part: str, fields: tuple[str, ...]) -> None:
    """Remove fields of an object, and the object if it becomes empty."""
    _keep(spec, part, tuple(key for key in spec.get(part) or () if key not in fields))


def _keep(spec: Json, part: str, fields: tuple[str, ...]) -> None:
    remaining = {key: value for key, value in (spec.pop(part, None) or {}).items() if key in fields}
    if remaining:
        spec[part] = remaining


def _prefix(name: str) -> str:
    return name[:_PREFIX_CHARACTERS].rstrip("-")


def ensemble_job(sweep: Sweep, *, name: str | None = None, workers: int | None = None) -> dict[str, Any]:
    """Return the manifest of a job that evaluates the mean of the predictions of the best trials of a sweep.

    Its members are the trials in `status.best`, as many as `keepBest`, with the checkpoints that have their values. The
    result is stored in the directory that the template names, for the name of the new job.

    Args:
        sweep: at least two of its trials have a checkpoint; it may still run.
        name: name of the new job; default: the sweep's name, `-ensemble-` and five characters.
        workers: replicas; default: as many as evaluate a trial after training, else as many as train one.

    Raises:
        NotPossible: the trials run no program, or different ones, or fewer than two have a checkpoint.
    """
    best = [trial for trial in sweep.status.best or () if trial.checkpoint is not None]
    if len(best) < 2:  # noqa: PLR2004  one model is no ensemble
        raise NotPossible(
            f'sweep "{sweep.name}" has {len(best)} trials with a checkpoint in status.best, and an ensemble needs two: '
            "set keepBest, and checkpoint and evaluation.mode in the template"
        )
    valid_sweep = _parse_sweep(sweep)
    jobs = [Job(job_with_values(sweep.manifest, valid_sweep, trial.trial, trial.parameters)) for trial in best]
    programs = {(job.spec.get("training") or {}).get("program") for job in jobs}
    program = programs.pop()
    if programs or program is None:
        raise NotPossible(
            f'the trials of sweep "{sweep.name}" do not run one training.program, so none can evaluate all'
        )
    manifest = evaluating(jobs[0], f"{sweep.name[:31]}-ensemble-", name, workers)
    manifest["spec"].setdefault("evaluation", {})["ensemble"] = _members(best, jobs)
    manifest["spec"]["env"] = [
        variable for variable in manifest["spec"]["env"] if variable.get("name") not in _OF_TRIAL
    ]
    return manifest


def _parse_sweep(sweep: Sweep) -> TFDistSweep:
    try:
        return parse_sweep(sweep.manifest, programs=False)
    except ValidationFailed as error:
        problem = error.problems[0]
        raise NotPossible(f'sweep "{sweep.name}" is invalid: {problem.path}: {problem.message}') from None


def _members(best: Sequence[BestTrial], jobs: Sequence[Job]) -> list[Json]:
    configs = [job.spec["training"].get("config") or {} for job in jobs]
    members: list[Json] = []
    for trial, config in zip(best, configs, strict=True):
        other = _differences(config, configs[0])
        members.append({"checkpoint": trial.checkpoint} | ({"config": other} if other else {}))
    return members


def _differences(config: Mapping[str, Any], base: Mapping[str, Any]) -> Json:
    return {
        key: value
        for key, value in config.items()
        if key not in _TRAINING_CONFIG and (key not in base or base[key] != value)
    }
