"""The text of `tfdist sweep describe`: a pure function of a sweep."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from tfdist.cli.description import condition_lines, field_lines
from tfdist.cli.job_table import phase_of
from tfdist.cli.sweep_table import cell
from tfdist.cli.tables import age, text_table
from tfdist.messages import count
from tfdist.timestamps import parse_time

if TYPE_CHECKING:
    from tfdist.client.sweep import Sweep

_DEFAULT_METHOD: Final = "Random"
_NONE: Final = "<none>"
_LABEL: Final = 17


def sweep_description(sweep: "Sweep", now: datetime, *, width: int | None) -> list[str]:
    """Return the lines of the description of a sweep.

    Args:
        sweep: as it was read.
        now: the time that ages end at.
        width: of the terminal, to which text is wrapped; None does not wrap.
    """
    lines = [line for field in _fields(sweep, now) for line in field_lines(field, width)]
    return [*lines, *_best(sweep, width), *condition_lines(sweep.status.conditions or (), now, width)]


def _fields(sweep: "Sweep", now: datetime) -> Iterator[tuple[str, str]]:
    yield "Name", sweep.name
    yield "Namespace", sweep.namespace
    yield "Age", f"{age(now - parse_time(sweep.created))} (created {sweep.created})"
    yield "Phase", phase_of(sweep)
    if sweep.message:
        yield "Message", sweep.message
    yield "Metric", f"{sweep.metric or _NONE}, {'Maximize' if sweep.maximizes else 'Minimize'}"
    yield (
        "Parameters",
        ", ".join(str(parameter.get("name")) for parameter in sweep.spec.get("parameters") or ()) or _NONE,
    )
    yield "Search", _search(sweep.spec)
    if stopping := sweep.spec.get("earlyStopping"):
        yield "Early Stopping", f"{stopping.get('method')} from step {stopping.get('minSteps')}"
    if trials := sweep.status.trials:
        text = f"{trials.total}: {trials.running} running, {trials.succeeded} succeeded, {trials.stopped} stopped"
        yield "Trials", f"{text}, {trials.failed} failed"


def _search(spec: Mapping[str, Any]) -> str:
    search: Mapping[str, Any] = spec.get("search") or {}
    parts = [str(search.get("method") or _DEFAULT_METHOD)]
    if trials := search.get("trials"):
        parts.append(count(trials, "trial"))
    if search.get("seed"):
        parts.append(f"seed {search['seed']}")
    return ", ".join([*parts, f"{spec.get('parallelism') or 1} at a time"])


def _best(sweep: "Sweep", width: int | None) -> list[str]:
    """Return the table of the best trials, whose checkpoints are kept."""
    if not sweep.status.best:
        return [f"{'Best Trials:':<{_LABEL}}{_NONE}"]
    rows = [
        [trial.job, cell(trial.value), str(trial.step), trial.checkpoint or "", _parameters(trial.parameters)]
        for trial in sweep.status.best
    ]
    return ["Best Trials:", *text_table(("Job", "Value", "Step", "Checkpoint", "Parameters"), rows, width=width)]


def _parameters(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={cell(value)}" for name, value in values.items())
