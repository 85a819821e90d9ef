"""Group, version, kind and limits of sweeps, and the labels and variables of their trials, without the models."""

from typing import Final

from tfdist.api.resource import GROUP

SWEEP_VERSION: Final = "v1alpha1"
SWEEP_API_VERSION: Final = f"{GROUP}/{SWEEP_VERSION}"
SWEEP_KIND: Final = "TFDistSweep"
SWEEP_PLURAL: Final = "tfdistsweeps"
SWEEP_SHORT_NAME: Final = "tfs"

MAX_TRIALS: Final = 500
MAX_PARAMETERS: Final = 32
MAX_RUNGS: Final = 32
MAX_SWEEP_NAME: Final = 41
"""Largest length of a sweep's name: the name of trial 499 has four more characters, and a job's name at most 45."""

SWEEP_LABEL: Final = f"{GROUP}/sweep"
"""On the job of a trial: the name of its sweep."""
TRIAL_LABEL: Final = f"{GROUP}/trial"
"""On the job of a trial: its number, from 0."""
SUSPENDED_BY_SWEEP: Final = f"{GROUP}/suspended-by-sweep"
"""Annotation of the job of a trial that its sweep has suspended: the sweep resumes no job that a user has suspended."""
TRIAL_ENV: Final = "TFDIST_TRIAL"
"""Environment variable of every replica of a trial: the number of the trial."""
PARAMETERS_ENV: Final = "TFDIST_PARAMETERS"
"""Environment variable of every replica of a trial: JSON of the values by parameter name; `$` is escaped."""
TRIAL_VARIABLES: Final = (TRIAL_ENV, PARAMETERS_ENV)


def trial_name(sweep: str, number: int) -> str:
    """Return the name of the job of a trial."""
    return f"{sweep}-{number}"
