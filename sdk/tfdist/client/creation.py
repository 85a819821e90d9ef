"""Creates the objects of a submission: all of them, or none, also if answers of the API server are lost.

A request without an answer may have been executed. It is repeated, and an object that then exists with the annotation
of the submission is its own. What may be in use is never deleted: if it remains unknown whether the job exists, the
error names what may remain. A process that is killed can leave code without an owner, which a later submission removes.
"""

import contextlib
import warnings
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Final
from urllib.parse import quote

from tfdist.api.resource import API_VERSION, KIND
from tfdist.api.sweep_resource import SWEEP_KIND
from tfdist.client.api_server import ApiServer, Json, jobs_path, sweeps_path
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
from tfdist.client.interrupts import postponed_interrupt
from tfdist.client.submission import Submission

SUBMISSION: Final = "tfdist.dev/submission"
"""Annotation with the id of the submission that has created an object."""
CODE_OF: Final = "tfdist.dev/code-of"
"""Label of code that has no owner yet, with the name of its job."""

_STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
_LOST: Final = (NoCluster, Unavailable)
_REJECTED: Final = (Conflict, Forbidden, Invalid)
"""Answers that the same request would get again."""
_CONTENT: Final = ("data", "binaryData")
_UNOWNED_AGE: Final = timedelta(hours=1)
"""Younger code may belong to a submission that is under way."""
_MOST_UNOWNED: Final = 10
"""Objects that one submission reads; each may have 1 MiB."""
_KINDS: Final[Mapping[str, tuple[str, Callable[[str], str]]]] = {
    KIND: ("job", jobs_path),
    SWEEP_KIND: ("sweep", sweeps_path),
}
"""Name in messages, and path by namespace, of the kinds that are created."""


def create(api: ApiServer, submission: Submission, *, dry_run: bool = False) -> Json:
    """Create the objects, and return the stored job. If one cannot be created, or on Ctrl-C, all are deleted again.

    A job that this submission has created before, by a request whose answer was lost, is returned. If the user may not
    change ConfigMaps, the code stays without an owner, with a warning of Python: the job needs none.

    Raises:
        AlreadyExists: a job of this name exists, or a ConfigMap with other content.
        ClientError: a request failed; the message names what may remain in the cluster, and how to remove it.
    """
    with postponed_interrupt() as interrupted:
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
        code = self._submission.code
        for manifest in (*self._submission.config_maps, *([_labelled(code)] if code else [])):
            self._config_map(manifest)
            interrupted()
        job = self._job(self._submission.job)
        interrupted()
        if code is not None and not self._dry_run:
            self._own(code, job)
            interrupted()
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
        """Make the job the owner of its code, which is then deleted with it."""
        path = _config_maps(code["metadata"]["namespace"])
        try:
            try:
                stored = _owned(self._api, code, job)
            except _LOST:
                stored = _owned(self._api, code, job)  # the same change twice is harmless
        except NotFound:
            # It belonged to an earlier job of the same name, and has been deleted with it.
            self._create(path, code | {"metadata": code["metadata"] | {"ownerReferences": [_owner(job)]}})
            return
        except _REJECTED as error:
            warnings.warn(_remains(code, job, error), stacklevel=2)
            return
        if _object(path, code) in self._made:
            self._made[_object(path, code)] = code | stored


def _tidy(api: ApiServer, job: Json) -> None:
    """Remove code that killed submissions have left in the namespace of a job that was just created."""
    namespace, now = job["metadata"]["namespace"], datetime.fromisoformat(job["metadata"]["creationTimestamp"])
    path = _config_maps(namespace)
    for code in api.request("GET", path, query={"labelSelector": CODE_OF, "limit": _MOST_UNOWNED}).get("items") or ():
        metadata = code["metadata"]
        if (
            metadata.get("ownerReferences")
            or now - datetime.fromisoformat(metadata["creationTimestamp"]) < _UNOWNED_AGE
        ):
            continue
        try:
            user = api.request("GET", f"{jobs_path(namespace)}/{quote(metadata['labels'][CODE_OF], safe='')}")
        except NotFound:
            user = {}
        with contextlib.suppress(NotFound, *_REJECTED):
            if _code_of(user) == metadata["name"]:
                _owned(api, code, user)  # the submission was killed after its job was created, or had not the right
                continue
            api.delete(_object(path, code), uid=metadata["uid"], version=metadata.get("resourceVersion"))


def _code_of(job: Json) -> str | None:
    """Return the name of the ConfigMap with the code of a job."""
    source = ((job.get("spec") or {}).get("training") or {}).get("source") or {}
    name: str | None = (source.get("archive") or {}).get("name")
    return name


def _owned(api: ApiServer, code: Json, job: Json) -> Json:
    change = {"metadata": {"ownerReferences": [_owner(job)], "labels": {CODE_OF: None}}}
    path = _object(_config_maps(code["metadata"]["namespace"]), code)
    return api.request("PATCH", path, change, content_type=_STRATEGIC_PATCH)


def _owner(job: Json) -> Json:
    return {key: job["metadata"][key] for key in ("name", "uid")} | {"apiVersion": API_VERSION, "kind": KIND}


def _remains(code: Json, job: Json, error: ClientError) -> str:
    """Return the warning that code has no owner."""
    name, namespace = code["metadata"]["name"], code["metadata"]["namespace"]
    return (
        f'job "{job["metadata"]["name"]}" is created, but configmap "{name}" with its code is not deleted with it '
        f"({error}): "
        "the next submission of a user who may patch and delete ConfigMaps sees to it, or, after the job, "
        f"kubectl delete -n {namespace} configmap/{name}"
    )


def _labelled(code: Json) -> Json:
    labels = {**(code["metadata"].get("labels") or {}), CODE_OF: code["metadata"]["name"].rpartition("-code-")[0]}
    return code | {"metadata": code["metadata"] | {"labels": labels}}


def _config_maps(namespace: str) -> str:
    return f"/api/v1/namespaces/{quote(namespace, safe='')}/configmaps"


def _object(path: str, manifest: Json) -> str:
    """Return the path of an object in a collection."""
    return f"{path}/{quote(manifest['metadata'].get('name', ''), safe='')}"


def _text(manifest: Json) -> str:
    return f"{manifest['kind'].lower()}/{manifest['metadata'].get('name', '')}"
