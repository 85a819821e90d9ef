"""The job of task `Evaluate` that evaluates the best trials of a sweep as one model."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tfdist.api.sweep import TFDistSweep
from tfdist.api.sweep_resource import PARAMETERS_ENV, TRIAL_ENV
from tfdist.api.sweep_status import BestTrial
from tfdist.client.api_server import Json
from tfdist.client.errors import NotPossible
from tfdist.client.evaluation_job import evaluating
from tfdist.client.job import Job
from tfdist.client.sweep import Sweep
from tfdist.programs.config import ProgramConfig
from tfdist.sweeps.trial import job_with_values
from tfdist.validation import ValidationFailed
from tfdist.validation.sweep import parse_sweep

_OF_TRAINING: Final = frozenset(str(field.alias) for field in ProgramConfig.model_fields.values())
"""Fields of `training.config` that concern how a model is trained, and neither the model nor its data."""
_OF_TRIAL: Final = (TRIAL_ENV, PARAMETERS_ENV)


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
        if key not in _OF_TRAINING and (key not in base or base[key] != value)
    }
