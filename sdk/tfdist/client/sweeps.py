"""The sweeps of a namespace, and the handle of one of them."""

import builtins
import contextlib
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tfdist.api.sweep_resource import SWEEP_API_VERSION, SWEEP_KIND
from tfdist.client.api_server import MERGE_PATCH
from tfdist.client.errors import NotFound, NotPossible, SweepFailed, WaitTimeout
from tfdist.client.paths import object_path, sweeps_path
from tfdist.client.sweep import FINAL, Sweep, Trial
from tfdist.client.watch import watch_object
from tfdist.messages import suggest

if TYPE_CHECKING:
    from tfdist.client.client import Client


class Sweeps:
    """Submits, finds and controls sweeps.

    >>> sweep = Client().sweeps.submit(manifest)
    >>> best = sweep.wait(timeout=86400)[0]
    """

    def __init__(self, client: "Client") -> None:
        self._client = client

    @property
    def namespace(self) -> str:
        """Namespace of the sweeps."""
        return self._client.namespace

    def submit(
        self, sweep: Mapping[str, Any], *, config_maps: Sequence[Mapping[str, Any]] = (), dry_run: bool = False
    ) -> "SweepHandle":
        """Create a sweep and the ConfigMaps that its jobs refer to, or nothing.

        Args:
            sweep: the manifest. Without a namespace it is created in that of the client.
            config_maps: ConfigMaps. They are created, or must have the same content; they are not deleted with the
                sweep.
            dry_run: have the API server check the objects without storing them.

        Raises:
            AlreadyExists: there is a sweep of this name, or a ConfigMap with another content.
            Invalid: the API server or the controller's webhook rejects the sweep.
            NotInstalled: the cluster has no CRD of sweeps.
            ClientError: a request failed.
        """
        # creation imports the models: a tenth of a second, which other methods do without
        from tfdist.client.creation import create  # noqa: PLC0415
        from tfdist.client.submission import prepare  # noqa: PLC0415

        manifest = {"apiVersion": SWEEP_API_VERSION, "kind": SWEEP_KIND}
        manifest |= {key: value for key, value in sweep.items() if key != "status"}
        prepared = prepare(manifest, self.namespace, None, config_maps)
        return self.handle(Sweep(create(self._client.api, prepared, dry_run=dry_run)))

    def get(self, name: str) -> Sweep:
        """Return a sweep.

        Raises:
            NotFound: there is none of this name in the namespace.
            NotInstalled: the cluster has no CRD of sweeps.
            ClientError: the request failed.
        """
        with self._naming(name):
            return Sweep(self._client.api.request("GET", self._path(name)))

    def attach(self, name: str) -> "SweepHandle":
        """Return the handle of a sweep that exists, as `get`."""
        return self.handle(self.get(name))

    def list(self, *, all_namespaces: bool = False, selector: str | None = None) -> list[Sweep]:
        """Return the sweeps of the namespace, or of all, by namespace and name.

        Args:
            all_namespaces: whether those of all namespaces are returned.
            selector: of their labels, such as `team=vision`.

        Raises:
            NotInstalled: the cluster has no CRD of sweeps.
            ClientError: the request failed.
        """
        path = sweeps_path(None if all_namespaces else self.namespace)
        sweeps = [Sweep(manifest) for manifest in self._client.api.items(path, {"labelSelector": selector})]
        return sorted(sweeps, key=lambda sweep: (sweep.namespace, sweep.name))

    def watch(self, name: str, *, seconds: float | None = None) -> Iterator[Sweep]:
        """Yield a sweep, and again after each change, through cut connections and restarts of the API server.

        Args:
            name: of the sweep.
            seconds: end after so many; by default never.

        Raises:
            NotFound: there is no such sweep, or it has been deleted.
            ClientError: a request failed.
        """
        with self._naming(name):
            for stored in watch_object(self._client.api, sweeps_path(self.namespace), name, seconds=seconds):
                yield Sweep(stored)

    def suspend(self, name: str) -> Sweep:
        """Have a sweep suspend its jobs and create no new ones; `resume` continues from there.

        A warning reports what jobs without checkpoints lose, which is `loss` of the sweep.

        Raises:
            NotPossible: the sweep has finished.
            ClientError: a request failed.
        """
        sweep = self._set_suspend(name, "suspended", suspend=True)
        if sweep.loss:
            warnings.warn(sweep.loss, stacklevel=2)
        return sweep

    def resume(self, name: str) -> Sweep:
        """Continue a suspended sweep: its jobs resume from their last checkpoints.

        Raises:
            NotPossible: the sweep has finished.
            ClientError: a request failed.
        """
        return self._set_suspend(name, "resumed", suspend=False)

    def delete(self, name: str, *, uid: str | None = None) -> None:
        """Delete a sweep, with `uid` only if it is this one; its jobs are deleted with it, volumes are not.

        Raises:
            NotFound: there is none of this name in the namespace.
            ClientError: the request failed.
        """
        with self._naming(name):
            self._client.api.delete(self._path(name), uid=uid)

    def similar(self, name: str) -> str | None:
        """Return the most similar name of a sweep of the namespace; None if none is similar.

        Raises:
            ClientError: the request failed.
        """
        items = self._client.api.request("GET", sweeps_path(self.namespace), query={"limit": 500})["items"]
        return suggest(name, (sweep["metadata"]["name"] for sweep in items))

    def handle(self, sweep: Sweep) -> "SweepHandle":
        """Return the handle of a sweep that has been read."""
        inside = self if sweep.namespace == self.namespace else self._client.in_namespace(sweep.namespace).sweeps
        return SweepHandle(inside, sweep)

    def _set_suspend(self, name: str, done: str, *, suspend: bool) -> Sweep:
        sweep = self.get(name)
        if sweep.phase in FINAL:
            raise NotPossible(f'sweep "{name}" cannot be {done}: it has finished ({sweep.phase})')
        change = {"spec": {"suspend": suspend}}
        with self._naming(name):
            return Sweep(self._client.api.request("PATCH", self._path(name), change, content_type=MERGE_PATCH))

    @contextlib.contextmanager
    def _naming(self, name: str) -> Iterator[None]:
        """Name the sweep and the namespace in the error about a resource that does not exist."""
        try:
            yield
        except NotFound:
            raise NotFound(f'sweep "{name}" not found in namespace "{self.namespace}"') from None

    def _path(self, name: str) -> str:
        return object_path(sweeps_path(self.namespace), name)


class SweepHandle:
    """Controls one sweep, which another sweep of the same name does not replace."""

    def __init__(self, sweeps: Sweeps, sweep: Sweep) -> None:
        self._sweeps = sweeps
        self._sweep = sweep

    def __repr__(self) -> str:
        return f"<Sweep {self.name} {self._sweep.phase} {self._sweep.message}".rstrip() + ">"

    @property
    def name(self) -> str:
        """Name of the sweep."""
        return self._sweep.name

    @property
    def namespace(self) -> str:
        """Namespace of the sweep."""
        return self._sweep.namespace

    @property
    def sweep(self) -> Sweep:
        """The sweep as it was last read."""
        return self._sweep

    def refresh(self) -> Sweep:
        """Read the sweep again and return it.

        Raises:
            NotFound: it has been deleted, or another one has its name.
            ClientError: the request failed.
        """
        return self._read(self._sweeps.get(self.name))

    def watch(self, *, seconds: float | None = None) -> Iterator[Sweep]:
        """Yield the sweep, and again after each change, for so many `seconds`, by default without end.

        Raises:
            NotFound: it has been deleted, or another one has its name.
            ClientError: the request failed.
        """
        for sweep in self._sweeps.watch(self.name, seconds=seconds):
            yield self._read(sweep)

    def wait(self, timeout: float | None = None) -> builtins.list[Trial]:
        """Wait until the sweep has ended, and return its trials, the best first.

        Args:
            timeout: seconds; by default without end.

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

    def wait_for(self, phases: Iterable[str] = (), timeout: float | None = None) -> Sweep:
        """Wait until the sweep has one of `phases`, or has ended in any way, and return it.

        Raises:
            WaitTimeout: it has not got there in time.
            NotFound: it has been deleted.
            ClientError: a request failed.
        """
        wanted = frozenset(phases)
        for sweep in self.watch(seconds=timeout):
            if sweep.is_finished or (sweep.phase in wanted and sweep.is_current):
                return sweep
        reason = f": {self._sweep.message}" if self._sweep.message else ""
        raise WaitTimeout(f"{self.name} is {self._sweep.phase} after {timeout:g} s{reason}")

    def results(self, *, best_first: bool = True) -> builtins.list[Trial]:
        """Read the sweep again and return its trials, the best first, or by number.

        Raises:
            NotFound: it has been deleted.
            ClientError: the request failed.
        """
        return self.refresh().results(best_first=best_first)

    def suspend(self) -> Sweep:
        """Suspend the jobs of the sweep, and create no new ones."""
        return self._read(self._sweeps.suspend(self.name))

    def resume(self) -> Sweep:
        """Continue the sweep."""
        return self._read(self._sweeps.resume(self.name))

    def delete(self) -> None:
        """Delete the sweep with its jobs, and no other one of its name."""
        self._sweeps.delete(self.name, uid=self._sweep.uid)

    def wait_deleted(self, timeout: float | None = None) -> None:
        """Wait until the sweep is deleted, after `delete`; the cluster then deletes its jobs.

        Raises:
            WaitTimeout: it is not gone in time.
            ClientError: a request failed.
        """
        try:
            for _ in self.watch(seconds=timeout):
                pass
        except NotFound:
            return
        raise WaitTimeout(f'after {timeout:g} s there is still sweep "{self.name}"')

    def _read(self, sweep: Sweep) -> Sweep:
        if sweep.uid != self._sweep.uid:
            raise NotFound(f"sweep {self.name} was deleted; another one has its name now")
        self._sweep = sweep
        return sweep
