"""The objects of one kind, jobs or sweeps, in a namespace."""

import builtins
import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from tfdist.client.api_server import MERGE_PATCH, ApiServer, Json, object_path
from tfdist.client.errors import NotFound
from tfdist.client.stored import Workload
from tfdist.client.watch import watch_object
from tfdist.messages import suggest

if TYPE_CHECKING:
    # Creating alone needs the models of the specification and their validation: over a tenth of a second to import.
    from tfdist.client.submission import Submission

T = TypeVar("T", bound=Workload)
H_co = TypeVar("H_co", covariant=True)

_SEARCHED: Final = 500


@dataclass(frozen=True, slots=True)
class ObjectKind(Generic[T, H_co]):
    """A kind of object, and the classes that represent its objects."""

    noun: str
    """Its name in messages: `job`."""
    api_version: str
    kind: str
    path: Callable[[str | None], str]
    """Returns the path of the objects of a namespace, or with None of all namespaces."""
    stored: Callable[[Json], T]
    handle: "Callable[[Resources[T, Any], T], H_co]"


class Resources(Generic[T, H_co]):
    """Submits, finds and changes the objects of one kind in a namespace.

    >>> sweep = Client().sweeps.submit(manifest)
    >>> best = sweep.wait(timeout=86400)[0]
    """

    def __init__(self, api: ApiServer, namespace: str, kind: ObjectKind[T, H_co]) -> None:
        self.api, self.namespace = api, namespace
        self.kind: ObjectKind[T, Any] = kind

    def submit(
        self, manifest: Mapping[str, Any], *, config_maps: Sequence[Mapping[str, Any]] = (), dry_run: bool = False
    ) -> H_co:
        """Create an object and the ConfigMaps that it refers to, or nothing.

        Args:
            manifest: the object. Without a namespace it is created in this one.
            config_maps: ConfigMaps. They are created, or must have the same content; they are not deleted with the
                object.
            dry_run: have the API server check the objects without storing them.

        Raises:
            AlreadyExists: an object of this name exists, or a ConfigMap with other content.
            Invalid: the API server or the controller's webhook rejects the object.
            NotInstalled: the cluster does not have the CRD.
            ClientError: a request failed.
        """
        from tfdist.client.submission import prepare  # noqa: PLC0415  see TYPE_CHECKING

        document = {"apiVersion": self.kind.api_version, "kind": self.kind.kind}
        document |= {key: value for key, value in manifest.items() if key != "status"}
        return self.create(prepare(document, self.namespace, None, config_maps), dry_run=dry_run)

    def create(self, submission: "Submission", *, dry_run: bool = False) -> H_co:
        """Create an object that has been prepared, with its ConfigMaps, or nothing; otherwise the same as `submit`.

        Raises:
            ClientError: a request failed.
        """
        from tfdist.client.creation import create  # noqa: PLC0415  see TYPE_CHECKING

        placed = submission.in_namespace(self.namespace)
        return self.handle(self.kind.stored(create(self.api, placed, dry_run=dry_run)))

    def get(self, name: str) -> T:
        """Return an object.

        Raises:
            NotFound: the namespace has no object of this name.
            NotInstalled: the cluster does not have the CRD.
            ClientError: the request failed.
        """
        with self._naming(name):
            return self.kind.stored(self.api.request("GET", self._path(name)))

    def attach(self, name: str) -> H_co:
        """Return the handle of an object that exists.

        Raises:
            NotFound: the namespace has no object of this name.
            NotInstalled: the cluster does not have the CRD.
            ClientError: the request failed.
        """
        return self.handle(self.get(name))

    def list(self, *, all_namespaces: bool = False, selector: str | None = None) -> list[T]:
        """Return the objects of the namespace, or of all namespaces, sorted by namespace and name.

        Args:
            all_namespaces: whether to return the objects of all namespaces.
            selector: labels that the objects must have, such as `team=vision`.

        Raises:
            NotInstalled: the cluster does not have the CRD.
            ClientError: the request failed.
        """
        path = self.kind.path(None if all_namespaces else self.namespace)
        found = [self.kind.stored(manifest) for manifest in self.api.items(path, {"labelSelector": selector})]
        return sorted(found, key=lambda stored: (stored.namespace, stored.name))

    def watch(self, name: str, *, seconds: float | None = None) -> Iterator[T]:
        """Yield an object, and again after each change, through cut connections and restarts of the API server.

        Args:
            name: the object's name.
            seconds: stop after this long; default: never.

        Raises:
            NotFound: the object does not exist, or has been deleted.
            ClientError: a request failed.
        """
        with self._naming(name):
            for stored in watch_object(self.api, self.kind.path(self.namespace), name, seconds=seconds):
                yield self.kind.stored(stored)

    def patch(self, name: str, change: Json) -> T:
        """Change an object by a merge patch (RFC 7396), and return it.

        Raises:
            NotFound: the namespace has no object of this name.
            Invalid: the changed object is invalid.
            ClientError: the request failed.
        """
        with self._naming(name):
            return self.kind.stored(self.api.request("PATCH", self._path(name), change, content_type=MERGE_PATCH))

    def delete(self, name: str, *, uid: str | None = None) -> None:
        """Delete an object: pods end within their grace periods, the jobs of a sweep are deleted, volumes are kept.

        Args:
            name: the object's name.
            uid: delete only the object with this UID.

        Raises:
            NotFound: the namespace has no object of this name.
            ClientError: the request failed.
        """
        with self._naming(name):
            self.api.delete(self._path(name), uid=uid)

    def similar(self, name: str) -> str | None:
        """Return the most similar name among the first 500 objects of the namespace; None if none is similar.

        Raises:
            ClientError: the request failed.
        """
        items: builtins.list[Json] = self.api.request(
            "GET", self.kind.path(self.namespace), query={"limit": _SEARCHED}
        )["items"]
        return suggest(name, (item["metadata"]["name"] for item in items))

    def handle(self, stored: T) -> H_co:
        """Return the handle of an object that has been read, from this or another namespace."""
        is_here = stored.namespace == self.namespace
        own = self if is_here else Resources(self.api, stored.namespace, self.kind)
        handle: H_co = self.kind.handle(own, stored)
        return handle

    @contextlib.contextmanager
    def _naming(self, name: str) -> Iterator[None]:
        """Name the object and the namespace in the error about an object that does not exist."""
        try:
            yield
        except NotFound:
            raise NotFound(f'{self.kind.noun} "{name}" not found in namespace "{self.namespace}"') from None

    def _path(self, name: str) -> str:
        return object_path(self.kind.path(self.namespace), name)
