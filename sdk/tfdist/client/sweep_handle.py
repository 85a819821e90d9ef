"""The handle of one sweep."""

import html
from typing import Final

from tfdist.api.status import FunctionResult
from tfdist.api.sweep_resource import SWEEP_API_VERSION, SWEEP_KIND, SWEEP_LABEL, TRIAL_LABEL
from tfdist.client.api_server import Json, sweeps_path
from tfdist.client.backend import ObjectKind
from tfdist.client.errors import SweepFailed
from tfdist.client.handle import Handle
from tfdist.client.job import Job
from tfdist.client.job_handle import JOBS, JobHandle
from tfdist.client.resources import Resources
from tfdist.client.sweep import Sweep, Trial
from tfdist.printable import printable


class SweepHandle(Handle[Sweep]):
    """Controls one sweep, which another sweep of the same name does not replace."""

    def __repr__(self) -> str:
        return f"<Sweep {self.name} {self.sweep.phase} {self.sweep.message}".rstrip() + ">"

    def _repr_html_(self) -> str:
        sweep = self.sweep
        return f"<b>{html.escape(sweep.name)}</b> {sweep.phase} {html.escape(printable(sweep.message))}".rstrip()

    @property
    def sweep(self) -> Sweep:
        """The sweep as it was last read."""
        return self._stored

    def wait(self, timeout: float | None = None) -> list[Trial]:
        """Wait until the sweep has ended, and return its trials, as `results` does.

        Args:
            timeout: seconds; default: wait forever.

        Raises:
            SweepFailed: it has failed or is invalid, with the message of its condition; `results` has its trials.
            WaitTimeout: it has not ended in time.
            NotFound: it has been deleted.
            ClientError: a request failed.
        """
        sweep = self.wait_for(timeout=timeout)
        if sweep.exit_code:
            raise SweepFailed(f"{sweep.name} {sweep.phase.lower()}: {sweep.message}")
        return sweep.results(returned=self._returned(sweep))

    def results(self, *, best_first: bool | None = None) -> list[Trial]:
        """Read the sweep again and return its trials: the best first, or by number if no metric compares them.

        Trials of a function have `result`, what it has returned, while their jobs exist.

        Raises:
            NotFound: it has been deleted.
            ClientError: the request failed.
        """
        sweep = self.refresh()
        return sweep.results(best_first=best_first, returned=self._returned(sweep))

    def jobs(self) -> list[JobHandle]:
        """Return the handles of the jobs of its trials that exist, by number of the trial.

        Raises:
            ClientError: the request failed.
        """
        jobs = Resources(self._resources.backend, self.namespace, JOBS)
        own = [job for job in jobs.list(selector=f"{SWEEP_LABEL}={self.name}") if self._owns(job)]
        return [jobs.handle(job) for job in sorted(own, key=_number)]

    def _returned(self, sweep: Sweep) -> dict[int, FunctionResult]:
        """Return what the functions of the jobs have returned, by number of the trial."""
        jobs = [handle.job for handle in self.jobs()] if sweep.calls_function else []
        return {_number(job): result for job in jobs if (result := job.status.function_result) is not None}

    def _owns(self, job: Job) -> bool:
        owners = job.manifest["metadata"].get("ownerReferences") or ()
        return any(owner["uid"] == self._stored.uid for owner in owners)

    @staticmethod
    def _suspension(*, suspend: bool) -> Json:
        return {"spec": {"suspend": suspend}}


def _number(job: Job) -> int:
    """Return the number of the trial of a job."""
    return int(job.manifest["metadata"]["labels"][TRIAL_LABEL])


SWEEPS: Final = ObjectKind("sweep", SWEEP_API_VERSION, SWEEP_KIND, sweeps_path, Sweep, SweepHandle)
