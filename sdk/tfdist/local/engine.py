"""Runs a job to its end: plans with the planner of the controller, and executes the plans on this machine.

Restarts, deadlines, evaluation, suspension, conditions and the end of the job are as in a cluster, because the same
code decides about them (`tfdist.planner`). Each turn makes a `JobView` from the processes and reports, and executes the
plan: writes the status, creates and deletes pods. Objects other than pods have no meaning here.
"""

import platform
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from tfdist.api.status import ConditionType, TFDistJobStatus
from tfdist.contract import replica_name
from tfdist.contract_reports import ProgressReport
from tfdist.local import progress
from tfdist.local.console import Console
from tfdist.local.interrupt import Interrupts
from tfdist.local.job import BUNDLED, LocalJob
from tfdist.local.logs import Tail, shows_info, without_info
from tfdist.local.pods import Pods
from tfdist.local.processes import Processes
from tfdist.local.replica_plan import PREPARATIONS
from tfdist.local.reports import probe, reports_and_stacks, update_reports
from tfdist.local.run_directory import RunDirectory, short
from tfdist.local.silence import (
    SilenceDetector,
    listening_ports,
    silence_message,
    standstill_message,
    tensorflow_port,
)
from tfdist.observed.job_view import JobView, RuntimeState, StoredJob
from tfdist.observed.pod import PodSummary
from tfdist.outcome import read_status
from tfdist.planner import Event, plan
from tfdist.reasons import EventReason
from tfdist.render.fingerprint import fingerprint
from tfdist.render.installation import Installation
from tfdist.status.conditions import is_true
from tfdist.status.phase import is_terminal
from tfdist.timestamps import rfc3339

_POLL_SECONDS: Final = 0.1
_REPORT_SECONDS: Final = 1.0
_SETTLE_SECONDS: Final = 3.0
"""Less than on a cluster: replicas of one machine end together, and those that serve others never end themselves."""

_IN_THE_LAST_LINE: Final = frozenset({EventReason.SUCCEEDED, EventReason.FAILED, EventReason.SUSPENDED})
"""Events that the last line of the output reports."""


class Engine:
    """The run of one job."""

    def __init__(
        self, local: LocalJob, directory: RunDirectory, console: Console, processes: Processes, interrupts: Interrupts
    ) -> None:
        self._directory, self._console, self._processes = directory, console, processes
        self._interrupts, self._handled_interrupts = interrupts, 0
        self._pods = Pods(local, processes, directory)
        self._installation = Installation(BUNDLED, settle_seconds=_SETTLE_SECONDS, cluster=platform.node() or None)
        job = local.job
        self._stored = StoredJob(job, (), 1, name=job.metadata.name, template=fingerprint(job))
        self._status = TFDistJobStatus()
        self._runtime = RuntimeState(observed_since=rfc3339(datetime.now(UTC)))
        self._grace_seconds = max(replica.grace_seconds for replica in local.replicas.values())
        self._tails: dict[str, Tail] = {}
        self._silence = SilenceDetector(time.monotonic())
        environments = {name: processes.environment(replica) for name, replica in local.replicas.items()}
        self._ports = {name: tensorflow_port(environment) for name, environment in environments.items()}
        placement = local.job.spec.runtime.log_device_placement  # logged as INFO by TensorFlow
        self._info = {name for name, each in environments.items() if placement or shows_info(each)}
        self._turn_at = self._report_at = float("-inf")

    @property
    def status(self) -> TFDistJobStatus:
        """The job's status."""
        return self._status

    def run(self) -> None:
        """Run the job until it has succeeded, failed or been suspended, and no replica runs."""
        while True:
            self._observe()
            self._handle_interrupts()
            if time.monotonic() >= self._turn_at:
                self._turn()
            elif self._has_ended():
                return
            time.sleep(_POLL_SECONDS)

    def _has_ended(self) -> bool:
        over = is_terminal(self.status) or is_true(self.status, ConditionType.SUSPENDED)
        return over and not self._processes.running

    def _turn(self) -> None:
        """Plan, and execute the plan; after a change the next turn follows at once, as after an event of a watch."""
        now = datetime.now(UTC)
        pods, no_command = self._pods.summaries(), (lambda *_: "")  # a message of the run names the file of the stacks
        view = JobView(self._stored, self._status, self._runtime, pods, log_of=self._log_of, stacks_of=no_command)
        next_plan = plan(view, now, self._installation)
        self._runtime.completed, self._runtime.failure_seen_at = next_plan.completed, next_plan.failure_seen_at
        has_changed = self._pods.remove_ended()
        if next_plan.status is not None:
            self._status = read_status(next_plan.status)
            self._directory.write_status(next_plan.status)
        for event in next_plan.events:
            self._report(event)
        for manifest in next_plan.creates:
            self._pods.create(manifest, now)
        for name in next_plan.deletes:
            self._pods.delete(name, now)
        if self._pods.start():
            self._silence.on_output(time.monotonic())
            has_changed = True
        if next_plan.probes:
            self._runtime.probe_result = probe(next_plan, self._pods.running())
        self._follow_logs()
        if has_changed or next_plan.status is not None or next_plan.creates or next_plan.deletes or next_plan.probes:
            self._turn_at = float("-inf")
        else:
            wait = next_plan.requeue_after_seconds
            self._turn_at = float("inf") if wait is None else time.monotonic() + wait

    def _observe(self) -> None:
        """Observe logs, ended processes and reports; a change makes the next turn due."""
        codes = self._processes.ended()
        for name, tail in self._tails.items():
            lines = list(tail.lines(last=name in codes))
            if lines:
                self._silence.on_output(time.monotonic())
            self._console.log(name, lines if name in self._info else list(without_info(iter(lines))))
        self._pods.record_ends(codes, datetime.now(UTC))
        due = bool(codes)
        if time.monotonic() >= self._report_at:
            self._report_at = time.monotonic() + _REPORT_SECONDS
            before = self._runtime.cadence
            due = update_reports(self._runtime, self.status, self._pods.running()) or due
            if self._runtime.cadence != before:
                self._silence.on_output(time.monotonic())
            report = self._runtime.report
            current = report.content if report is not None and self._runs(report.content) else None
            self._show_progress(current, has_ended=bool(codes))
            self._report_silence(reporting=current is not None and current.step is not None)
        if due:
            self._turn_at = float("-inf")

    def _show_progress(self, report: ProgressReport | None, *, has_ended: bool) -> None:
        """Show the progress until the job has ended, whose last line follows.

        When replicas have ended, which the status does not have yet, the report is older than their last lines.
        """
        if is_terminal(self.status):
            self._console.close()
        elif not has_ended:
            phase = self.status.phase or ""
            self._console.progress(phase, progress.unless_stopping(phase, report))

    def _runs(self, report: ProgressReport) -> bool:
        """Return whether the process that has reported runs, and not one of a later attempt."""
        pod = self._pods.running().get(replica_name(report.role or "", report.index or 0))
        return pod is not None and pod.summary().attempt == report.attempt

    def _report_silence(self, *, reporting: bool) -> None:
        seconds = self._silence.due(time.monotonic(), reporting=reporting)
        if seconds is None or not self._processes.running:
            return
        if reporting:
            reports, stacks = reports_and_stacks(self._pods.running())
            self._console.message(standstill_message(seconds, reports, short(self._directory.write_stacks(stacks))))
            return
        ports = {name: self._ports.get(name) for name in self._processes.running}
        open_ports = listening_ports()
        unreachable = [name for name, port in ports.items() if port is not None and port not in open_ports]
        self._console.message(silence_message(seconds, list(ports), unreachable))

    def _follow_logs(self) -> None:
        for name in self._processes.running:
            if name not in self._tails:
                self._tails[name] = Tail(self._directory.log(name))

    def _handle_interrupts(self) -> None:
        """Suspend the job at the first signal, kill its replicas at the second."""
        if self._interrupts.count == self._handled_interrupts:
            return
        processes, is_first = self._processes.running, not self._handled_interrupts
        self._handled_interrupts = self._interrupts.count
        if is_first:
            self._stored, self._turn_at = _with_suspend(self._stored), float("-inf")
        if self._interrupts.count > 1:
            self._processes.kill(processes)
        elif processes:
            self._console.message(stopping_text(processes, self._grace_seconds, self._interrupts.name))

    def _report(self, event: Event) -> None:
        if event.reason not in _IN_THE_LAST_LINE:
            self._console.message(f"{event.reason}: {event.message}")

    def _log_of(self, _: str, pod: PodSummary) -> str:
        return short(self._directory.log(PREPARATIONS.get(pod.container or "", pod.replica)))


def stopping_text(names: Sequence[str], grace_seconds: float, signal_name: str) -> str:
    """Return the message about the replicas that a first signal stops."""
    they, them = ("it", "it") if len(names) == 1 else ("they", "them")
    advice = f"{they} may save for {grace_seconds:.0f} s"
    return f"stopping {', '.join(names)}: {advice}; a second {signal_name} kills {them}"


def _with_suspend(stored: StoredJob) -> StoredJob:
    """Return the job after a user has set `runPolicy.suspend`."""
    assert stored.job is not None, "a local run has a valid job"  # noqa: S101  `LocalJob` guarantees it
    policy = stored.job.spec.run_policy.model_copy(update={"suspend": True})
    spec = stored.job.spec.model_copy(update={"run_policy": policy})
    return replace(stored, job=stored.job.model_copy(update={"spec": spec}), generation=stored.generation + 1)
