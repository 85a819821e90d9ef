"""The text of `tfdist describe`: a pure function of a job and its events, or of a sweep."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from tfdist.api.condition import StatusCondition
from tfdist.api.history_status import AttemptStatus
from tfdist.api.status import (
    ConditionType,
    EvaluationResult,
    ExportResult,
    Progress,
    ReplicaFailure,
    TFDistJobStatus,
)
from tfdist.cli.kinds import JOB, Kind
from tfdist.cli.object_table import PHASE_COLOURS, amount, cell, percentage, phase_of, spent
from tfdist.cli.output import RESET, one_line
from tfdist.cli.tables import age, ages, text_table, wrapped
from tfdist.messages import count
from tfdist.outcome import find_condition, root_cause
from tfdist.printable import printable
from tfdist.remedies import remedy
from tfdist.timestamps import parse_time

if TYPE_CHECKING:
    from tfdist.client.events import JobEvent
    from tfdist.client.job import Job
    from tfdist.client.stored import StoredObject
    from tfdist.client.sweep import Sweep


_LABEL: Final = 17
_LAST_EVENTS: Final = 20
_NONE: Final = "<none>"
_DEFAULT_LIMIT: Final = 3
_DEFAULT_METHOD: Final = "Random"
_MOST_METRICS: Final = 8

Field = tuple[str, str]


def description(
    kind: Kind,
    stored: Any,
    events: "Sequence[JobEvent] | str",
    now: datetime,
    *,
    width: int | None,
    colour: bool = False,
) -> list[str]:
    """Return the lines of the description of a job or sweep.

    Args:
        kind: of the object.
        stored: the job or sweep as it was read.
        events: of a job and its pods, newest last, or the reason why there are none.
        now: the time that ages end at.
        width: of the terminal, to which text is wrapped; None does not wrap.
        colour: whether the phase is coloured.
    """
    lines = _job_lines(stored, events, now, width) if kind is JOB else _sweep_lines(stored, now, width)
    code = PHASE_COLOURS.get(phase_of(stored)) if colour else None
    if code:
        lines = [
            f"{line[:_LABEL]}{code}{line[_LABEL:]}{RESET}" if line.startswith("Phase:") else line for line in lines
        ]
    return lines


def _job_lines(job: "Job", events: "Sequence[JobEvent] | str", now: datetime, width: int | None) -> list[str]:
    status = job.status
    head = chain(_job_fields(job, now), _work(status, now), _results(status, now), _cluster(job, now))
    lines = [line for field in head for line in field_lines(field, width)]
    failure = root_cause(status) or next(iter(reversed(status.failures or ())), None)
    if failure is not None:
        lines.append("Last Failure:")
        lines += [line for field in _failure(failure, now) for line in field_lines(field, width, "  ")]
    lines += _replicas(status)
    if fields := list(usage_fields(job, now)):
        lines += ["Usage:", *(line for field in fields for line in field_lines(field, width, "  "))]
    lines += attempt_lines(job, now, width)
    lines += _conditions(status.conditions or (), now, width)
    return [*lines, *_events(job, events, now, width)]


def _sweep_lines(sweep: "Sweep", now: datetime, width: int | None) -> list[str]:
    fields = chain(_identity(sweep, sweep.message, now), _sweep_fields(sweep))
    lines = [line for field in fields for line in field_lines(field, width)]
    return [*lines, *_best(sweep, width), *_conditions(sweep.status.conditions or (), now, width)]


def field_lines(field: Field, width: int | None, indent: str = "") -> list[str]:
    """Return a label and its text, which continues below itself."""
    label, text = field
    start = f"{indent}{label + ':':<{_LABEL - len(indent)}}"
    first, *others = wrapped(one_line(printable(text)), width and max(20, width - _LABEL)) or [""]
    return [f"{start}{first}".rstrip(), *(f"{'':<{_LABEL}}{line}" for line in others)]


def _identity(stored: "StoredObject", text: str, now: datetime) -> Iterator[Field]:
    """Yield what jobs and sweeps have; `text` is the reason of the phase."""
    yield "Name", stored.name
    yield "Namespace", stored.namespace
    yield "Age", f"{age(now - parse_time(stored.created))} (created {stored.created})"
    yield "Phase", phase_of(stored)
    if text:
        yield "Message", text


def _job_fields(job: "Job", now: datetime) -> Iterator[Field]:
    yield from _identity(job, job.message, now)
    cause = root_cause(job.status)
    for reason in _reasons(job.status):
        if (advice := remedy(reason)) and not (cause and cause.reason == reason):
            yield "Remedy", advice
    if not job.is_current and job.status.observed_generation is not None:
        yield "Note", "the controller has not acted on the last change of the specification yet"
    yield "Strategy", str(job.spec.get("strategy") or _NONE)


def _reasons(status: TFDistJobStatus) -> Iterator[str]:
    """Yield the reason of the condition that explains why the job does not continue."""
    for kind, status_value in (
        (ConditionType.FAILED, "True"),
        (ConditionType.INVALID, "True"),
        (ConditionType.STALLED, "True"),
        (ConditionType.PODS_READY, "False"),
        (ConditionType.EVALUATED, "False"),
        (ConditionType.DEGRADED, "True"),
    ):
        condition = find_condition(status, kind)
        if condition is not None and condition.status == status_value:
            yield condition.reason
            return


def _work(status: TFDistJobStatus, now: datetime) -> Iterator[Field]:
    progress = status.progress
    if progress is None:
        yield "Progress", _NONE
        return
    eta = status.summary.eta if status.summary else None
    yield "Progress", ", ".join(_progress(progress, eta)) or _NONE
    if progress.reported_at:
        yield "Reported", _ago(progress.reported_at, now)
    if progress.metrics:
        yield "Metrics", _metrics(progress.metrics)
    if last := progress.last_checkpoint:
        age_text = f", {_ago(last.time, now)}" if last.time else ""
        yield "Last Checkpoint", f"step {last.step}{age_text}, {last.path}"
    else:
        yield "Last Checkpoint", _NONE


def _progress(progress: Progress, eta: str | None) -> Iterator[str]:
    if progress.step is not None:
        total = f" of {progress.total_steps}" if progress.total_steps else ""
        percentage = f" ({progress.percent}%)" if progress.percent is not None else ""
        yield f"step {progress.step}{total}{percentage}"
    if progress.epoch is not None:
        yield f"epoch {progress.epoch}"
    if eta:
        yield f"{eta} left"
    if progress.examples_per_second is not None:
        yield f"{progress.examples_per_second:,.0f} examples/s"


def _results(status: TFDistJobStatus, now: datetime) -> Iterator[Field]:
    evaluation, export = status.evaluation, status.export
    if evaluation and (last := evaluation.final or evaluation.latest):
        yield "Evaluation", _evaluation(last, now)
        if evaluation.best and evaluation.best.step != last.step:
            yield "Best Evaluation", _evaluation(evaluation.best, now)
    if export and export.final:
        yield "Export", _export(export.final)
    if export and export.best:
        yield "Best Export", _export(export.best)
    if result := status.function_result:
        yield "Result", result.value or f"{_NONE}: {result.problem or 'it was not recorded'}"


def _evaluation(result: EvaluationResult, now: datetime) -> str:
    details = [
        *([f"{result.examples:,} examples"] if result.examples is not None else ()),
        *([_ago(result.time, now)] if result.time else ()),
    ]
    return f"step {result.step}: {_metrics(result.metrics)}" + (f" ({', '.join(details)})" if details else "")


def _export(result: ExportResult) -> str:
    return f"{result.directory} (step {result.step})"


def _metrics(metrics: Mapping[str, float]) -> str:
    names = sorted(metrics)
    listing = ", ".join(f"{name}={metrics[name]:.4g}" for name in names[:_MOST_METRICS])
    return f"{listing}, ..." if len(names) > _MOST_METRICS else listing


def _cluster(job: "Job", now: datetime) -> Iterator[Field]:
    status, scheduling, restarts = job.status, job.status.scheduling, job.status.restarts
    if scheduling and scheduling.queue:
        position = f", position {scheduling.position}" if scheduling.position else ""
        yield "Queue", f"{scheduling.queue}{position}"
    if scheduling and scheduling.reason:
        since = f" (since {age(now - parse_time(scheduling.since))})" if scheduling.since else ""
        yield "Waits For", f"{scheduling.reason}{since}"
    if restarts:
        policy: Mapping[str, Any] = job.spec.get("runPolicy") or {}
        limit = policy.get("backoffLimit", _DEFAULT_LIMIT)
        yield (
            "Restarts",
            (
                f"{restarts.counted + restarts.uncounted} ({restarts.counted} counted, {restarts.uncounted} uncounted; "
                f"{restarts.since_checkpoint} of {limit} since the last checkpoint)"
            ),
        )
    if status.tensor_board:
        yield "TensorBoard", f"kubectl port-forward -n {job.namespace} service/{status.tensor_board.service} 6006"


def _failure(failure: ReplicaFailure, now: datetime) -> Iterator[Field]:
    """Yield the fields of the failure that ended the last attempt."""
    round_text = f", round {failure.round}" if failure.round is not None else ""
    yield "Replica", f"{failure.role}-{failure.index} (attempt {failure.attempt}{round_text})"
    yield "Pod", failure.pod
    if failure.node:
        yield "Node", failure.node
    if failure.exit_code is not None:
        signal = f" (signal {failure.signal})" if failure.signal else ""
        yield "Exit Code", f"{failure.exit_code}{signal}"
    yield "Time", f"{failure.time} ({_ago(failure.time, now)})"
    yield "Root Cause", "yes" if failure.root_cause else "no: a consequence of another failure"
    yield "Counted", "yes" if failure.counted else "no"
    yield "Reason", failure.reason
    yield "Message", failure.message or _NONE
    if advice := remedy(failure.reason, failure.exit_code):
        yield "Remedy", advice


def _replicas(status: TFDistJobStatus) -> list[str]:
    if not status.replicas:
        return [f"{'Replicas:':<{_LABEL}}{_NONE}"]
    rows = [[role, *map(str, (n.desired, n.ready, n.failed))] for role, n in status.replicas.items()]
    return ["Replicas:", *text_table(("Role", "Desired", "Ready", "Failed"), rows, width=None)]


def _conditions(conditions: Sequence[StatusCondition], now: datetime, width: int | None) -> list[str]:
    """Return the table of conditions; `width` is the width of the terminal, None without one."""
    if not conditions:
        return [f"{'Conditions:':<{_LABEL}}{_NONE}"]
    rows = [
        [
            condition.type,
            condition.status,
            condition.reason,
            age(now - parse_time(condition.last_transition_time)),
            _clean(condition.message),
        ]
        for condition in conditions
    ]
    return ["Conditions:", *text_table(("Type", "Status", "Reason", "Age", "Message"), rows, width=width)]


def _events(job: "Job", events: "Sequence[JobEvent] | str", now: datetime, width: int | None) -> list[str]:
    if not events or isinstance(events, str):
        return [f"{'Events:':<{_LABEL}}{events or _NONE}"]
    latest = events[-_LAST_EVENTS:]
    rows = [[e.type, e.reason, ages(e.count, e.first, e.last, now), e.object, e.message] for e in latest]
    title = "Events:"
    if len(latest) < len(events):
        title = f"Events: the last {len(latest)} of {count(len(events), 'event')}; all: tfdist events {job.name}"
    return [title, *text_table(("Type", "Reason", "Age", "Object", "Message"), rows, width=width)]


def _clean(text: str) -> str:
    return one_line(printable(text))


def _ago(time: str, now: datetime) -> str:
    return f"{age(now - parse_time(time))} ago"


def _sweep_fields(sweep: "Sweep") -> Iterator[Field]:
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


def usage_fields(job: "Job", now: datetime) -> Iterator[tuple[str, str]]:
    """Yield label and text of what a job used up to a time; none before its first pod."""
    usage = job.status.usage
    if usage is None:
        return
    use = spent(job, now)
    for label, hours, now_used in (("GPU", use.gpu_hours, usage.gpus), ("CPU", use.cpu_hours, usage.cpus)):
        yield f"{label} Hours", f"{hours:,.2f}" + (f" ({amount(now_used)} in use)" if now_used else "")
    if usage.productive_seconds is not None:
        for label, seconds, share in (
            ("Productive", usage.productive_seconds, use.productive),
            ("Lost", usage.lost_seconds or 0.0, use.lost),
        ):
            of_all = f" ({percentage(share)} of the time of all attempts)" if share is not None else ""
            yield label, f"{age(timedelta(seconds=seconds))}{of_all}"


def attempt_lines(job: "Job", now: datetime, width: int | None) -> list[str]:
    """Return the table of the attempts of a job; empty without one."""
    attempts = job.status.attempts or []
    if not attempts:
        return []
    rows = [[*_attempt_cells(attempt, now), _attempt_end(attempt)] for attempt in attempts]
    headings = ("Attempt", "Age", "Duration", "Steps", "Recovered", "End")
    return ["Attempts:", *text_table(headings, rows, width=width)]


def _attempt_cells(attempt: AttemptStatus, now: datetime) -> list[str]:
    begun = parse_time(attempt.started_at)
    end = parse_time(attempt.ended_at) if attempt.ended_at else now
    number = str(attempt.attempt) if attempt.round is None else f"{attempt.attempt}, round {attempt.round}"
    step_range = "" if attempt.to_step is None else f"{attempt.from_step or 0}-{attempt.to_step}"
    recovery_seconds = attempt.seconds_to_recover
    recovery = "" if recovery_seconds is None else age(timedelta(seconds=recovery_seconds))
    return [number, age(now - begun), age(end - begun), step_range, recovery]


def _attempt_end(attempt: AttemptStatus) -> str:
    if attempt.ended_at is None:
        return ""
    node = f" on {attempt.node}" if attempt.node else ""
    cause = f": {attempt.root_cause}{node}" if attempt.root_cause else ""
    return one_line(printable(f"{attempt.reason or 'ended'}{cause}"))
