"""Assembles a TFDistSweep from the converted parts of a Katib Experiment whose trials are TFJobs."""

from collections.abc import Mapping
from typing import Any, Final

from tfdist.api.sweep_resource import SWEEP_API_VERSION, SWEEP_KIND
from tfdist.convert import katib, search, trial_values
from tfdist.convert.job import convert, kept_metadata
from tfdist.convert.katib import Experiment, Objective
from tfdist.convert.metric_names import reported_metric
from tfdist.convert.result import AddNote, CannotConvert, Conversion, Json, Note
from tfdist.convert.trial_values import SPEC_PATH
from tfdist.validation import FieldError

_GOALS: Final = {"maximize": ("Maximize", "max"), "minimize": ("Minimize", "min")}
"""`goal` of the sweep, and the metric strategy that has the same meaning."""
_JOBS_OWN: Final = {
    "suspend": "dropped: the sweep suspends its jobs; set spec.suspend of the sweep",
    "ttlSecondsAfterFinished": "dropped: the sweep deletes its jobs, see cleanTrials and ttlSecondsAfterFinished there",
}
_DROPPED: Final = {
    "spec.metricsCollectorSpec": "dropped: no sidecar reads the output",
    "spec.resumePolicy": "dropped: a sweep that has finished is not extended",
    "spec.trialTemplate.successCondition": "dropped: the conditions Succeeded and Failed of the job count",
    "spec.trialTemplate.failureCondition": "dropped: the conditions Succeeded and Failed of the job count",
    "spec.trialTemplate.primaryContainerName": "",
    "spec.trialTemplate.primaryPodLabels": "",
}
"""Notes on fields without a counterpart; "" for those that concern Katib's sidecar only."""
_METRIC: Final = (
    "is read from status.progress.metrics of the jobs: fit of Keras in a training.script reports its metrics there, "
    "any other program calls tfdist_trainer.report; no sidecar reads the output"
)


def convert_experiment(manifest: Mapping[str, Any]) -> Conversion:
    """Return the TFDistSweep equivalent to a Katib Experiment of TFJobs, with notes on differences.

    The manifest is not modified. The result may be invalid: `tfdist.validation.sweep.parse_sweep` checks it.

    Raises:
        CannotConvert: the Experiment or its TFJob is malformed, or has something without a counterpart.
    """
    notes: list[Note] = []

    def add_note(path: str, message: str) -> None:
        notes.append(Note(path, message))

    experiment, raw = katib.read(manifest)
    if "nasConfig" in raw["spec"]:
        raise CannotConvert([FieldError("spec.nasConfig", "TFDist has no counterpart of the search for architectures")])
    metadata = kept_metadata(experiment.metadata, raw["metadata"], add_note)
    objective = experiment.spec.objective
    metric = reported_metric(objective.objective_metric_name, raw["spec"].get("metricsCollectorSpec"))
    add_note("spec.objective.objectiveMetricName", f"{metric.note}{_METRIC}")
    spec = _objective(objective, metric.name, add_note) | _search(experiment, add_note)
    spec |= _limits(experiment, add_note)
    spec["template"] = {"spec": _job(experiment, metadata, add_note)}
    for path in katib.unknown(experiment):
        if text := _DROPPED.get(path, "dropped: a sweep has no such field"):
            add_note(path, text)
    return Conversion({"apiVersion": SWEEP_API_VERSION, "kind": SWEEP_KIND, "metadata": metadata, "spec": spec}, notes)


def _objective(objective: Objective, metric: str, add_note: AddNote) -> Json:
    if objective.type not in _GOALS:
        raise CannotConvert([FieldError("spec.objective.type", f"{objective.type!r} is not one of maximize, minimize")])
    goal, strategy = _GOALS[objective.type]
    if objective.additional_metric_names:
        text = "dropped: the status of each job has all metrics that it reports"
        add_note("spec.objective.additionalMetricNames", text)
    for index, each in enumerate(objective.metric_strategies):
        if each.name == objective.objective_metric_name and each.value != strategy:
            text = f"{each.value} becomes {strategy}: the best value of a trial counts"
            add_note(f"spec.objective.metricStrategies[{index}]", text)
    result: Json = {"metric": metric, "goal": goal}
    return result if objective.goal is None else result | {"targetValue": objective.goal}


def _search(experiment: Experiment, add_note: AddNote) -> Json:
    spec = experiment.spec
    names = trial_values.parameter_names(spec.parameters)
    parameters = search.parameters(spec.parameters, names, trial_values.variables(names), add_note)
    return (
        {"parameters": parameters}
        | search.search(spec, parameters, add_note)
        | search.early_stopping(spec.early_stopping, add_note)
    )


def _limits(experiment: Experiment, add_note: AddNote) -> Json:
    spec = experiment.spec
    limits: Json = {}
    if spec.max_failed_trial_count is None:
        add_note("spec.maxFailedTrialCount", "an Experiment without it tolerates any number; a sweep tolerates 3")
    else:
        limits["maxFailedTrials"] = spec.max_failed_trial_count
    if spec.trial_template.retain:
        return limits | {"cleanTrials": "None"}
    add_note(
        "spec.trialTemplate.retain", "false becomes cleanTrials: AllButBest, which keeps the job of the best trial"
    )
    return limits | {"cleanTrials": "AllButBest"}


def _job(experiment: Experiment, metadata: Json, add_note: AddNote) -> Json:
    """Return the specification of the jobs of the trials.

    Raises:
        CannotConvert: as for a TFJob, with the paths of the Experiment.
    """
    template = experiment.spec.trial_template
    names = trial_values.parameter_names(experiment.spec.parameters)
    variables = trial_values.variables(names)
    trial_spec = trial_values.with_variables(template.trial_spec, template.trial_parameters, variables)
    references = trial_values.used(template.trial_spec, template.trial_parameters)
    for index, parameter in enumerate(experiment.spec.parameters):
        if parameter.name not in references:
            text = f"no placeholder of the TFJob refers to it; the program reads {variables[parameter.name]}"
            add_note(f"spec.parameters[{index}]", text)
    try:
        conversion = convert(trial_spec | {"metadata": {"name": metadata.get("name") or "trial"}})
    except CannotConvert as error:
        problems = [FieldError(f"{SPEC_PATH}.{problem.path}", problem.message) for problem in error.problems]
        raise CannotConvert(problems) from None
    for note in conversion.notes:
        add_note(f"{SPEC_PATH}.{note.path}", note.message)
    if trial_spec.get("metadata", {}).get("labels") or trial_spec.get("metadata", {}).get("annotations"):
        add_note(f"{SPEC_PATH}.metadata", "dropped: the jobs of a sweep have the labels of the sweep")
    return _without_own_policies(conversion.manifest["spec"], add_note)


def _without_own_policies(spec: Json, add_note: AddNote) -> Json:
    policy = dict(spec.get("runPolicy", {}))
    for name, text in _JOBS_OWN.items():
        if policy.pop(name, None) is not None:
            add_note(f"{SPEC_PATH}.spec.runPolicy.{name}", text)
    result = spec | {"runPolicy": policy}
    return {name: value for name, value in result.items() if value != {} or name != "runPolicy"}
