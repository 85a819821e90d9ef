"""Creates the objects of a submission: all of them, or none, also if answers of the API server are lost.

A request without an answer may have been executed. It is repeated, and an object that then exists with the annotation
of the submission is its own. What may be in use is never deleted: if it remains unknown whether the job exists, the
error names what may remain. A process that is killed can leave code without an owner, which a later submission removes.
"""

import contextlib
import signal
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import quote

from tfdist.api.resource import API_VERSION, KIND
from tfdist.api.sweep_resource import SWEEP_API_VERSION, SWEEP_KIND
from tfdist.client.api_server import METADATA_OF_LIST, ApiServer, Json, jobs_path, sweeps_path
from tfdist.client.errors import (
    AlreadyExists,
    ClientError,
    Conflict,
    Forbidden,
    Invalid,
    NoCluster,
    NotConnected,
    NotFound,
    Unavailable,
)
from tfdist.client.submission import Submission, training_of
from tfdist.render.source import part_names

SUBMISSION: Final = "tfdist.dev/submission"
"""Annotation with the id of the submission that has created an object."""
CODE_OF: Final = "tfdist.dev/code-of"
"""Label of code that has no owner yet, with the name of its job, or `sweep.NAME`."""

_STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
_LOST: Final = (NoCluster, Unavailable)
_REJECTED: Final = (Conflict, Forbidden, Invalid)
"""Answers that the same request would get again."""
_CONTENT: Final = ("data", "binaryData")
_UNOWNED_AGE: Final = timedelta(hours=1)
"""Younger code may belong to a submission that is under way."""
_MOST_UNOWNED: Final = 100
"""Objects that one submission reads, without their content."""
_SWEEP: Final = "sweep."
_API_VERSIONS: Final = {KIND: API_VERSION, SWEEP_KIND: SWEEP_API_VERSION}
_KINDS: Final[Mapping[str, tuple[str, Callable[[str], str]]]] = {
    KIND: ("job", jobs_path),
    SWEEP_KIND: ("sweep", sweeps_path),
}
"""Name in messages, and path by namespace, of the kinds that are created."""


def create(api: ApiServer, submission: Submission, *, dry_run: bool = False) -> Json:
    """Create the objects, and return the stored job. If one cannot be created, or on Ctrl-C, all are deleted again.

    Code for an object store is uploaded first, and stays there. A job that this submission has created before, by a
    request whose answer was lost, is returned. If the user may not change ConfigMaps, the code stays without an owner,
    with a warning of Python: the job needs none.

    Raises:
        AlreadyExists: a job of this name exists, or a ConfigMap with other content.
        CodeError: the code cannot be uploaded.
        ClientError: a request failed; the message names what may remain in the cluster, and how to remove it.
    """
    if submission.upload is not None and not dry_run:
        submission.upload.run()
    with _postponed_interrupt() as interrupted:
        creation = _Creation(api, submission, dry_run=dry_run)
        try:
            job = creation.run(interrupted)
        except BaseException as error:
            remaining = creation.undo()
            if remaining and isinstance(error, ClientError):
                namespace = submission.job["metadata"]["namespace"]
                text = f"these may exist now; remove them by kubectl delete -n {namespace} {' '.join(remaining)}"
                raise type(error)(f"{error}; {text}") from None
            raise
    if not dry_run:
        with contextlib.suppress(ClientError):  # the next submission tries it again
            _tidy(api, job)
    return job


def _kind_of(label: str) -> tuple[str, str]:
    """Return the kind and the name in the value of `CODE_OF`."""
    return (SWEEP_KIND, label.removeprefix(_SWEEP)) if label.startswith(_SWEEP) else (KIND, label)


class _Creation:
    """Creates objects, and remembers which to delete if a later one cannot be created."""

    def __init__(self, api: ApiServer, submission: Submission, *, dry_run: bool) -> None:
        self._api, self._submission, self._dry_run = api, submission, dry_run
        self._query = {"fieldValidation": "Strict", "dryRun": "All" if dry_run else None}
        self._made: dict[str, Json] = {}
        """Each object that was created, by its path."""
        self._unknown: Json | None = None
        """The object of a request that may or may not have been executed."""

    def run(self, interrupted: Callable[[], None]) -> Json:
        """Create all objects and return the stored job; `interrupted` raises KeyboardInterrupt after Ctrl-C."""
        code = [_labelled(part, self._submission.job) for part in self._submission.code]
        for manifest in (*self._submission.config_maps, *code):
            self._config_map(manifest)
            interrupted()
        job = self._job(self._submission.job)
        interrupted()
        rejected: dict[str, ClientError] = {}
        for part in self._submission.code if not self._dry_run else ():
            try:
                self._own(part, job)
            except _REJECTED as error:
                rejected[part["metadata"]["name"]] = error
            interrupted()
        if rejected:
            warnings.warn(_remains(rejected, self._submission.job), stacklevel=2)
        return job

    def undo(self) -> list[str]:
        """Delete the created objects, the newest first, and return those that may remain."""
        if self._dry_run:
            return []
        remaining = [_text(self._unknown)] if self._unknown else []
        is_used = bool(self._unknown and self._unknown["kind"] in _KINDS)
        for path, stored in reversed(self._made.items()):
            if is_used or not self._is_deleted(path, stored["metadata"]):
                remaining.append(_text(stored))
                is_used = is_used or stored["kind"] in _KINDS  # a job that remains keeps what it refers to
        return remaining

    def _is_deleted(self, path: str, metadata: Json) -> bool:
        # code that has changed belongs to another submission's job now
        version = metadata.get("resourceVersion") if "/configmaps/" in path else None
        try:
            self._api.delete(path, uid=metadata["uid"], version=version)
        except (NotFound, Conflict):
            return True
        except ClientError:
            return False
        return True

    def _create(self, path: str, manifest: Json) -> Json:
        metadata = manifest["metadata"]
        annotations = {**(metadata.get("annotations") or {}), SUBMISSION: self._submission.id}
        self._unknown = manifest = manifest | {"metadata": metadata | {"annotations": annotations}}
        stored = self._post(path, manifest)
        self._unknown = None
        if not self._dry_run:
            self._made[_object(path, stored)] = manifest | stored
        return stored

    def _post(self, path: str, manifest: Json) -> Json:
        """Create an object; without an answer repeat it, and check whether the first request has created it."""
        errors: list[ClientError] = []
        while len(errors) < 2 and all(isinstance(error, _LOST) for error in errors):  # noqa: PLR2004
            try:
                return self._api.request("POST", path, manifest, query=self._query)
            except ClientError as error:
                errors.append(error)
            if isinstance(errors[0], NotConnected):
                break
        if len(errors) > 1 or isinstance(errors[0], AlreadyExists):
            try:
                existing = self._api.request("GET", _object(path, manifest))
            except NotFound:
                existing = {}
            except ClientError:
                raise errors[0] from None
            if (existing.get("metadata", {}).get("annotations") or {}).get(SUBMISSION) == self._submission.id:
                return existing
            if not existing and isinstance(errors[-1], _LOST) and any(isinstance(each, NoCluster) for each in errors):
                raise errors[0] from None  # one of the requests may still be under way
        self._unknown = None
        raise errors[-1] from None

    def _config_map(self, manifest: Json) -> None:
        path = _config_maps(manifest["metadata"]["namespace"])
        try:
            self._create(path, manifest)
        except AlreadyExists:
            existing = self._api.request("GET", _object(path, manifest))
            if any((existing.get(part) or {}) != (manifest.get(part) or {}) for part in _CONTENT):
                name = manifest["metadata"]["name"]
                raise AlreadyExists(
                    f'configmaps "{name}" already exists with another content: rename it, or apply yours by kubectl'
                ) from None

    def _job(self, manifest: Json) -> Json:
        kind, collection = _KINDS[manifest["kind"]]
        try:
            return self._create(collection(manifest["metadata"]["namespace"]), manifest)
        except AlreadyExists:
            name, namespace = manifest["metadata"]["name"], manifest["metadata"]["namespace"]
            text = f'{kind} "{name}" already exists in namespace "{namespace}"'
            raise AlreadyExists(f"{text}: choose another name, or delete that {kind} first") from None

    def _own(self, code: Json, job: Json) -> None:
        """Make the job the owner of a part of its code, which is then deleted with it."""
        path = _config_maps(code["metadata"]["namespace"])
        owner = _owner(job, self._submission.job["kind"])
        try:
            try:
                stored = _owned(self._api, code, owner)
            except _LOST:
                stored = _owned(self._api, code, owner)  # the same change twice is harmless
        except NotFound:
            # It belonged to an earlier job of the same name, and has been deleted with it.
            self._create(path, code | {"metadata": code["metadata"] | {"ownerReferences": [owner]}})
            return
        if _object(path, code) in self._made:
            self._made[_object(path, code)] = code | stored


def _tidy(api: ApiServer, job: Json) -> None:
    """Remove code that killed submissions have left in the namespace of a job that was just created."""
    namespace, now = job["metadata"]["namespace"], datetime.fromisoformat(job["metadata"]["creationTimestamp"])
    path, query = _config_maps(namespace), {"labelSelector": CODE_OF, "limit": _MOST_UNOWNED}
    for code in api.request("GET", path, query=query, accept=METADATA_OF_LIST).get("items") or ():
        metadata = code["metadata"]
        if (
            metadata.get("ownerReferences")
            or now - datetime.fromisoformat(metadata["creationTimestamp"]) < _UNOWNED_AGE
        ):
            continue
        kind, name = _kind_of(metadata["labels"][CODE_OF])
        try:
            user = api.request("GET", f"{_KINDS[kind][1](namespace)}/{quote(name, safe='')}")
        except NotFound:
            user = {}
        with contextlib.suppress(NotFound, *_REJECTED):
            if metadata["name"] in _code_of(user):
                _owned(
                    api, code, _owner(user, kind)
                )  # the submission was killed after its job was created, or had not the right
                continue
            api.delete(_object(path, code), uid=metadata["uid"], version=metadata.get("resourceVersion"))


def _code_of(job: Json) -> list[str]:
    """Return the names of the ConfigMaps with the code of a job or sweep."""
    archive = ((training_of(job) or {}).get("source") or {}).get("archive")
    return part_names(archive) if archive else []


def _owned(api: ApiServer, code: Json, owner: Json) -> Json:
    change = {"metadata": {"ownerReferences": [owner], "labels": {CODE_OF: None}}}
    path = _object(_config_maps(code["metadata"]["namespace"]), code)
    return api.request("PATCH", path, change, content_type=_STRATEGIC_PATCH)


def _owner(job: Json, kind: str) -> Json:
    return {key: job["metadata"][key] for key in ("name", "uid")} | {"apiVersion": _API_VERSIONS[kind], "kind": kind}


def _remains(rejected: Mapping[str, ClientError], job: Json) -> str:
    """Return the warning that code has no owner; `rejected` has the errors by the names of ConfigMaps."""
    name, namespace, kind = job["metadata"]["name"], job["metadata"]["namespace"], _KINDS[job["kind"]][0]
    first, *others = rejected
    more = f" and {len(others)} more" if others else ""
    paths = " ".join(f"configmap/{each}" for each in rejected)
    return (
        f'{kind} "{name}" is created, but configmap "{first}"{more} with its code is not deleted with it '
        f"({rejected[first]}): "
        f"the next submission of a user who may patch and delete ConfigMaps sees to it, or, after the {kind}, "
        f"kubectl delete -n {namespace} {paths}"
    )


def _labelled(code: Json, job: Json) -> Json:
    name = job["metadata"]["name"]
    user = f"{_SWEEP}{name}" if job["kind"] == SWEEP_KIND else name
    labels = {**(code["metadata"].get("labels") or {}), CODE_OF: user}
    return code | {"metadata": code["metadata"] | {"labels": labels}}


def _config_maps(namespace: str) -> str:
    return f"/api/v1/namespaces/{quote(namespace, safe='')}/configmaps"


def _object(path: str, manifest: Json) -> str:
    """Return the path of an object in a collection."""
    return f"{path}/{quote(manifest['metadata'].get('name', ''), safe='')}"


def _text(manifest: Json) -> str:
    return f"{manifest['kind'].lower()}/{manifest['metadata'].get('name', '')}"


@contextlib.contextmanager
def _postponed_interrupt() -> Iterator[Callable[[], None]]:
    """Yield a function that raises KeyboardInterrupt if Ctrl-C has arrived; in the block only a second one raises it.

    Without effect outside of the main thread, which alone gets signals, and with a handler of the application's own.
    """
    is_pending = False

    def record(number: int, frame: Any) -> None:
        nonlocal is_pending
        if is_pending:
            signal.default_int_handler(number, frame)
        is_pending = True

    def check() -> None:
        if is_pending:
            raise KeyboardInterrupt

    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield check
        return
    signal.signal(signal.SIGINT, record)
    try:
        yield check
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    check()
