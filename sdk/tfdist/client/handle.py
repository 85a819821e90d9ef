"""The handle of one job or sweep, which another object of the same name does not replace."""

import contextlib
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, Final, Generic, TypeVar

from tfdist.client.api_server import Json
from tfdist.client.errors import NotFound, NotPossible, WaitTimeout
from tfdist.client.resources import Resources
from tfdist.client.stored import Workload
from tfdist.client.watch import patiently

T = TypeVar("T", bound=Workload)

_FIRST_PAUSE: Final = 0.2
_LONGEST_PAUSE: Final = 2.0


class Handle(ABC, Generic[T]):
    """Controls one object; another process gets its handle by the name of the object."""

    def __init__(self, resources: Resources[T, Any], stored: T) -> None:
        self._resources, self._stored = resources, stored

    @property
    def name(self) -> str:
        """Name of the object."""
        return self._stored.name

    @property
    def namespace(self) -> str:
        """Namespace of the object."""
        return self._stored.namespace

    def refresh(self) -> T:
        """Read the object again and return it.

        Raises:
            NotFound: it has been deleted, or another one has its name.
            ClientError: the request failed.
        """
        return self._read(self._resources.get(self.name))

    def watch(self, *, seconds: float | None = None) -> Iterator[T]:
        """Yield the object, and again after each change.

        Args:
            seconds: stop after this long; default: never.

        Raises:
            NotFound: it has been deleted, or another one has its name.
            ClientError: the request failed.
        """
        for stored in self._resources.watch(self.name, seconds=seconds):
            yield self._read(stored)

    def wait_for(self, phases: Iterable[str] = (), timeout: float | None = None) -> T:
        """Wait until the object has one of `phases`, or has ended in any way, and return it.

        Args:
            phases: such as `Running`; without any, wait for the end.
            timeout: seconds; default: wait forever.

        Raises:
            WaitTimeout: it has reached none of the phases in time.
            NotFound: it has been deleted.
            ClientError: a request failed.
        """
        wanted = frozenset(phases)
        for stored in self.watch(seconds=timeout):
            if stored.is_finished or stored.has_reached(wanted):
                return stored
        reason = f": {self._stored.message}" if self._stored.message else ""
        raise WaitTimeout(f"{self.name} is {self._stored.phase} after {timeout:g} s{reason}")

    def suspend(self) -> T:
        """Have the jobs save a checkpoint and stop; a sweep creates no new ones. `resume` continues from there.

        Python warns (`warnings.warn`) if jobs without checkpoints lose steps: see `loss` of the job or sweep.

        Raises:
            NotPossible: it has finished.
            NotFound: it has been deleted.
            ClientError: a request failed.
        """
        self._unfinished("suspended")
        return self._warned(self._patch(self._suspension(suspend=True)))

    def resume(self) -> T:
        """Continue from the last checkpoints.

        Raises:
            NotPossible: it has finished.
            NotFound: it has been deleted.
            ClientError: a request failed.
        """
        self._unfinished("resumed")
        return self._patch(self._suspension(suspend=False))

    def delete(self) -> None:
        """Delete the object, a sweep with its jobs, but not another object of its name.

        Raises:
            NotFound: it has been deleted.
            ClientError: the request failed.
        """
        self._resources.delete(self.name, uid=self._stored.uid)

    def wait_deleted(self, timeout: float | None = None) -> None:
        """Wait, after `delete`, until the object is deleted: a job with its pods; the cluster deletes a sweep's jobs.

        Args:
            timeout: seconds; default: wait forever.

        Raises:
            WaitTimeout: something is left after the timeout.
            ClientError: a request failed.
        """
        end = float("inf") if timeout is None else time.monotonic() + timeout
        pause = _FIRST_PAUSE
        while remaining := patiently(self._remaining, end):
            if time.monotonic() >= end:
                raise WaitTimeout(f"after {timeout:g} s there is still {remaining}")
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _remaining(self) -> str:
        """Return what is not deleted yet, as text; "" if all is."""
        with contextlib.suppress(NotFound):
            if self._resources.get(self.name).uid == self._stored.uid:
                return self._text()
        return ""

    @staticmethod
    @abstractmethod
    def _suspension(*, suspend: bool) -> Json:
        """Return the change that suspends or resumes the object."""

    def _unfinished(self, done: str) -> T:
        """Read the object again and return it, if a change still has an effect on it."""
        stored = self.refresh()
        if stored.is_final:
            raise NotPossible(f"{self._text()} cannot be {done}: it has finished ({stored.phase})")
        return stored

    def _patch(self, change: Json) -> T:
        return self._read(self._resources.patch(self.name, change))

    def _text(self) -> str:
        return f'{self._resources.kind.noun} "{self.name}"'

    @staticmethod
    def _warned(stored: T) -> T:
        """Return an object whose replicas end, after a warning of Python about its `loss`."""
        if stored.loss:
            warnings.warn(stored.loss, stacklevel=3)  # the line that calls the handle
        return stored

    def _read(self, stored: T) -> T:
        if stored.uid != self._stored.uid:
            raise NotFound(f"{self._resources.kind.noun} {self.name} was deleted; another one has its name now")
        self._stored = stored
        return stored
