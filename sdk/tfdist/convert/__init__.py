"""Turns TFJobs of Kubeflow into TFDistJobs, and Katib's Experiments of TFJobs into TFDistSweeps.

The TFJobs belong to the training operator (`kubeflow.org/v1`), the Experiments are `kubeflow.org/v1beta1`.

The result is as short as a manifest written by hand: short forms where possible, settings common to all roles at the
top level. Every field of the TFJob is kept or has a note that explains the change. Neither an API server nor YAML is
needed.

| module | part |
|---|---|
| `tfjob` | model of `kubeflow.org/v1`; types checked as by its CRD |
| `job` | assembles the TFDistJob |
| `replicas`, `pods`, `hoist` | replica types -> roles; settings common to all roles are hoisted to the job |
| `strategy`, `failure_policy`, `policies` | strategy, restart rules, limits, clean-up, success, scheduling |
| `legacy_names` | names of the training-operator in pods |
| `platform_notes` | differences that no field of the TFJob shows: gangs, host network, closed ports, token, `/tmp` |
| `katib_kind`, `katib` | recognizes Experiments; model of `kubeflow.org/v1beta1` |
| `experiment`, `search`, `trial_values` | assembles the TFDistSweep; parameters, algorithm; values in the TFJob |
| `metric_names` | the metric of an Experiment in event files or output -> the metric of `fit` |
| `other_documents` | notes on documents that select, refer to or contain TFJobs |
"""

from tfdist.convert.job import convert
from tfdist.convert.katib_kind import trains_tfjobs
from tfdist.convert.other_documents import PodLabels, notes_on_other
from tfdist.convert.result import CannotConvert, Conversion, Note

__all__ = [
    "CannotConvert",
    "Conversion",
    "Note",
    "PodLabels",
    "convert",
    "convert_experiment",
    "notes_on_other",
    "trains_tfjobs",
]
