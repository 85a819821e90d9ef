"""The objects of one kind, jobs or sweeps, in a namespace."""

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from tfdist.client.api_server import Json
from tfdist.client.backend import Backend, ObjectKind
from tfdist.client.stored import Workload
from tfdist.messages import suggest

if TYPE_CHECKING:
    from tfdist.client.code_archive import CodeArchive  # see `backend`
    from tfdist.client.requirements import Requirements
    from tfdist.client.submission import Submission

T = TypeVar("T", bound=Workload)
H_co = TypeVar("H_co", covariant=True)

_SEARCHED: Final = 500


class Resources(Generic[T, H_co]):
    """Submits, finds and changes the objects of one kind in a namespace.

    >>> sweep = Client().sweeps.submit(manifest)
    >>> best = sweep.wait(timeout=86400)[0]
    """

    def __init__(self, backend: Backend, namespace: str, kind: ObjectKind[T, H_co]) -> None:
        self.backend, self.namespace = backend, namespace
        self.kind: ObjectKind[T, Any] = kind

    def submit(
        self,
        manifest: Mapping[str, Any],
        *,
        code: "str | os.PathLike[str] | CodeArchive | None" = None,
        set: Mapping[str, Any] | None = None,  # noqa: A002  the name of the command's option
        include: Sequence[str] = (),
        requirements: "Requirements | None" = None,
        code_store: str | None = None,
        config_maps: Sequence[Mapping[str, Any]] = (),
        dry_run: bool = False,
    ) -> H_co:
        """Create an object and what it needs, or nothing.

        Args:
            manifest: the object. Without a namespace it is created in this one.
            code: a folder, or one script, that becomes `training.source.archive`, or that of the template of a sweep:
                ConfigMaps that are deleted with the object, for at most 8 MiB when it is packed.
            set: values of fields by their paths below `spec`, such as `{"training.config.epochs": 3}`. With `set` or
                `code` the object is validated before the first request.
            include: patterns, as in `.gitignore`, of files in the folder that go with the job although they may
                contain credentials; other such files are left out, and a warning names them.
            requirements: packages that the pods install before the script starts: a file of pip, or a list such as
                `["einops>=0.8"]`. They are locked now, with the hash of each wheel, and go with `code`.
            code_store: `s3://bucket/prefix` or `gs://bucket/prefix`, to which the folder is uploaded with the
                credentials of this environment, to become `training.source.object`. The job needs its own to read it.
                Default: the environment variable `TFDIST_CODE_STORE`.
            config_maps: ConfigMaps that the object refers to. They are created, or must have the same content; they
                are not deleted with the object.
            dry_run: have the API server check the objects without storing them.

        Raises:
            AlreadyExists: an object of this name exists, or a ConfigMap with other content.
            Invalid: the object is invalid, or the API server or the controller's webhook rejects it.
            CodeError: the code cannot be packed or uploaded.
            RequirementsError: no wheels satisfy the requirements, or they conflict with the packages of the image.
            NotInstalled: the cluster does not have the CRD.
            ClientError: a request failed.
        """
        from tfdist.client.code_store import store_of  # noqa: PLC0415  see TYPE_CHECKING
        from tfdist.client.submission import prepare_changed  # noqa: PLC0415  as above

        document = {"apiVersion": self.kind.api_version, "kind": self.kind.kind}
        document |= {key: value for key, value in manifest.items() if key != "status"}
        prepared = prepare_changed(
            document,
            self.namespace,
            code,
            set or {},
            config_maps,
            include,
            store=store_of(code_store),
            requirements=requirements,
            here=self.backend.runs_here,
        )
        return self.create(prepared, dry_run=dry_run)

    def create(self, submission: "Submission", *, dry_run: bool = False) -> H_co:
        """Create an object that has been prepared, with its ConfigMaps, or nothing; otherwise the same as `submit`.

        Raises:
            ClientError: a request failed.
        """
        placed = submission.in_namespace(self.namespace)
        return self.handle(self.kind.stored(self.backend.create(self.kind, placed, dry_run=dry_run)))

    def get(self, name: str) -> T:
        """Return an object.

        Raises:
            NotFound: the namespace has no object of this name.
            NotInstalled: the cluster does not have the CRD.
            ClientError: the request failed.
        """
        return self.kind.stored(self.backend.get(self.kind, self.namespace, name))

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
        namespace = None if all_namespaces else self.namespace
        found = [self.kind.stored(manifest) for manifest in self.backend.items(self.kind, namespace, selector)]
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
        for stored in self.backend.watch(self.kind, self.namespace, name, seconds):
            yield self.kind.stored(stored)

    def patch(self, name: str, change: Json) -> T:
        """Change an object by a merge patch (RFC 7396), and return it.

        Raises:
            NotFound: the namespace has no object of this name.
            Invalid: the changed object is invalid.
            ClientError: the request failed.
        """
        return self.kind.stored(self.backend.patch(self.kind, self.namespace, name, change))

    def delete(self, name: str, *, uid: str | None = None) -> None:
        """Delete an object: pods end within their grace periods, the jobs of a sweep are deleted, volumes are kept.

        Args:
            name: the object's name.
            uid: delete only the object with this UID.

        Raises:
            NotFound: the namespace has no object of this name.
            ClientError: the request failed.
        """
        self.backend.delete(self.kind, self.namespace, name, uid)

    def similar(self, name: str) -> str | None:
        """Return the most similar name among the first 500 objects of the namespace; None if none is similar.

        Raises:
            ClientError: the request failed.
        """
        items = self.backend.items(self.kind, self.namespace, None)
        return suggest(name, (item["metadata"]["name"] for item in itertools.islice(items, _SEARCHED)))

    def handle(self, stored: T) -> H_co:
        """Return the handle of an object that has been read, from this or another namespace."""
        is_here = stored.namespace == self.namespace
        own = self if is_here else Resources(self.backend, stored.namespace, self.kind)
        handle: H_co = self.kind.handle(own, stored)
        return handle
