"""The handle of one sweep."""

from typing import Final

from tfdist.api.sweep_resource import SWEEP_API_VERSION, SWEEP_KIND
from tfdist.client.api_server import Json, sweeps_path
from tfdist.client.errors import SweepFailed
from tfdist.client.handle import Handle
from tfdist.client.resources import ObjectKind
from tfdist.client.sweep import Sweep, Trial


class SweepHandle(Handle[Sweep]):
    """Controls one sweep, which another sweep of the same name does not replace."""

    def __repr__(self) -> str:
        return f"<Sweep {self.name} {self.sweep.phase} {self.sweep.message}".rstrip() + ">"

    @property
    def sweep(self) -> Sweep:
        """The sweep as it was last read."""
        return self._stored

    def wait(self, timeout: float | None = None) -> list[Trial]:
        """Wait until the sweep has ended, and return its trials, the best first.

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
        return sweep.results()

    def results(self, *, best_first: bool = True) -> list[Trial]:
        """Read the sweep again and return its trials, the best first, or by number.

        Raises:
            NotFound: it has been deleted.
            ClientError: the request failed.
        """
        return self.refresh().results(best_first=best_first)

    @staticmethod
    def _suspension(*, suspend: bool) -> Json:
        return {"spec": {"suspend": suspend}}


SWEEPS: Final = ObjectKind("sweep", SWEEP_API_VERSION, SWEEP_KIND, sweeps_path, Sweep, SweepHandle)
