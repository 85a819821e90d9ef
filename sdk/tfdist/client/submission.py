"""Creates a job together with the ConfigMaps that it needs: all of them, or none."""

import base64
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from tfdist import validation
from tfdist.api.resource import API_VERSION, KIND
from tfdist.api.sweep_resource import SWEEP_KIND
from tfdist.api.v1 import TFDistJob
from tfdist.client.api_server import ApiServer, Json
from tfdist.client.code_archive import CodeArchive, pack
from tfdist.client.errors import AlreadyExists, ClientError, Invalid, NoCluster, NotFound, Unavailable
from tfdist.client.interrupts import postponed_interrupt
from tfdist.client.overrides import with_values
from tfdist.client.paths import jobs_path, sweeps_path
from tfdist.render.source import ARCHIVE_KEY
from tfdist.validation import ValidationFailed

_STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
_CHARACTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
"""Those of the API server's `generateName`: without vowels, so that they form no word."""
_SUFFIX: Final = 5
_CONTENT: Final = ("data", "binaryData")
_KINDS: Final[Mapping[str, tuple[str, Callable[[str], str]]]] = {
    KIND: ("job", jobs_path),
    SWEEP_KIND: ("sweep", sweeps_path),
}
"""Name in messages, and path by namespace, of the kinds that are created."""


def generated_name(prefix: str) -> str:
    """Return a name that begins with `prefix`, as the API server makes one of `generateName`."""
    return prefix + "".join(secrets.choice(_CHARACTERS) for _ in range(_SUFFIX))


def manifest_of(job: TFDistJob | Mapping[str, Any]) -> Json:
    """Return the manifest of a job, without a status."""
    if isinstance(job, TFDistJob):
        job = job.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return {"apiVersion": API_VERSION, "kind": KIND} | {key: value for key, value in job.items() if key != "status"}


@dataclass(frozen=True, slots=True)
class Submission:
    """A job or sweep, the ConfigMaps of its user, which outlive it, and that of its code, which goes with it."""

    job: Json
    config_maps: tuple[Json, ...] = ()
    code: Json | None = None

    def in_namespace(self, namespace: str) -> "Submission":
        """Return the same objects, those without a namespace in this one."""
        place = {"namespace": namespace}
        job, *others = [
            manifest | {"metadata": place | manifest["metadata"]}
            for manifest in (self.job, *self.config_maps, *([self.code] if self.code else []))
        ]
        return Submission(job, tuple(others[: len(self.config_maps)]), others[-1] if self.code else None)


def prepare(
    job: Json, namespace: str, archive: CodeArchive | None = None, config_maps: Sequence[Mapping[str, Any]] = ()
) -> Submission:
    """Return what to create for a job, with the code of an archive in place of its own source.

    Args:
        job: the manifest.
        namespace: of a job without one; empty for none.
        archive: the code.
        config_maps: ConfigMaps that the job refers to.

    Raises:
        Invalid: the job has no script or program that could use the code.
    """
    metadata = dict(job.get("metadata") or {})
    if not metadata.get("name") and metadata.get("generateName"):
        metadata["name"] = generated_name(str(metadata.pop("generateName")))
    if namespace:
        metadata.setdefault("namespace", namespace)
    job = job | {"metadata": metadata}
    place = {"namespace": metadata["namespace"]} if metadata.get("namespace") else {}
    required_maps = tuple(_in_namespace(config_map, place) for config_map in config_maps)
    if archive is None:
        return Submission(job, required_maps)
    if not metadata.get("name"):
        raise Invalid("metadata.name: a job with a folder of code needs a name; set name or generateName")
    code = _code({"name": f"{metadata['name']}-code-{archive.digest}"} | place, archive)
    return Submission(_with_source(job, code["metadata"]["name"]), required_maps, code)


def prepare_changed(
    job: Json,
    namespace: str,
    code: str | os.PathLike[str] | CodeArchive | None,
    values: Mapping[str, Any],
    config_maps: Sequence[Mapping[str, Any]],
) -> Submission:
    """Return what to create for a job with other values of fields, and with a folder or script of code.

    A job that is changed here is validated here.

    Raises:
        Invalid: a path is malformed, or the changed job is invalid.
        CodeError: the code cannot be packed.
    """
    archive = code if code is None or isinstance(code, CodeArchive) else pack(Path(code))
    submission = prepare(with_values(job, values), namespace, archive, config_maps)
    if values or archive is not None:
        check(submission.job)
    return submission


def check(job: Json) -> None:
    """Validate a job without a cluster.

    Raises:
        Invalid: with all errors.
    """
    try:
        validation.parse(job)
    except ValidationFailed as error:
        raise Invalid(str(error)) from None


def create(api: ApiServer, submission: Submission, *, dry_run: bool = False) -> Json:
    """Create the objects, and return the stored job. If one cannot be created, or on Ctrl-C, all are deleted again.

    Raises:
        AlreadyExists: there is a job of this name, or a ConfigMap with another content.
        ClientError: a request failed.
    """
    with postponed_interrupt() as interrupted:
        creation = _Creation(api, dry_run=dry_run)
        try:
            return creation.run(submission, interrupted)
        except BaseException as error:
            remaining = creation.undo()
            if remaining and isinstance(error, ClientError):
                raise type(error)(f"{error}; these remain, delete them: {', '.join(remaining)}") from None
            raise


class _Creation:
    """Creates objects, and remembers which to delete if a later one cannot be created."""

    def __init__(self, api: ApiServer, *, dry_run: bool) -> None:
        self._api, self._dry_run = api, dry_run
        self._query = {"fieldValidation": "Strict", "dryRun": "All" if dry_run else None}
        self._made: list[tuple[str, Json]] = []
        """Path and object of each that was created."""

    def run(self, submission: Submission, interrupted: Callable[[], None]) -> Json:
        """Create all objects and return the stored job; `interrupted` raises KeyboardInterrupt after Ctrl-C."""
        code = submission.code
        for manifest in (*submission.config_maps, *([code] if code else [])):
            self._config_map(manifest)
            interrupted()
        job = self._job(submission.job, code)
        interrupted()
        if code is not None and not self._dry_run:
            self._own(code, job)
            interrupted()
        return job

    def undo(self) -> list[str]:
        """Delete the created objects, the newest first; return the objects that remain."""
        remaining = []
        for path, stored in reversed(self._made):
            try:
                self._api.delete(path, uid=stored["metadata"]["uid"])
            except NotFound:
                continue
            except ClientError:
                remaining.append(f"{stored['kind'].lower()}/{stored['metadata']['name']}")
        return remaining

    def _create(self, path: str, manifest: Json) -> Json:
        stored = self._api.request("POST", path, manifest, query=self._query)
        if not self._dry_run:
            self._made.append((f"{path}/{quote(stored['metadata']['name'], safe='')}", manifest | stored))
        return stored

    def _config_map(self, manifest: Json) -> None:
        path = _config_maps(manifest["metadata"]["namespace"])
        try:
            self._create(path, manifest)
        except AlreadyExists:
            name = manifest["metadata"]["name"]
            existing = self._api.request("GET", f"{path}/{quote(name, safe='')}")
            if any((existing.get(part) or {}) != (manifest.get(part) or {}) for part in _CONTENT):
                raise AlreadyExists(
                    f'configmaps "{name}" already exists with another content: rename it, or apply yours by kubectl'
                ) from None

    def _job(self, manifest: Json, code: Json | None) -> Json:
        kind, collection = _KINDS[manifest["kind"]]
        path = collection(manifest["metadata"]["namespace"])
        try:
            return self._create(path, manifest)
        except AlreadyExists:
            name, namespace = manifest["metadata"]["name"], manifest["metadata"]["namespace"]
            text = f'{kind} "{name}" already exists in namespace "{namespace}"'
            raise AlreadyExists(f"{text}: choose another name, or delete that {kind} first") from None
        except (NoCluster, Unavailable):
            # The answer is lost: the API server may have stored the job.
            existing = self._stored(f"{path}/{quote(manifest['metadata'].get('name', ''), safe='')}", code)
            if existing is None:
                raise
            return existing

    def _stored(self, path: str, code: Json | None) -> Json | None:
        """Return the job, if it exists and this creation must have made it."""
        timestamps = {item["metadata"]["name"]: item["metadata"]["creationTimestamp"] for _, item in self._made}
        created = timestamps.get(code["metadata"]["name"]) if code else None
        if code is None or created is None:
            return None
        try:
            existing = self._api.request("GET", path)
        except ClientError:
            return None
        source = ((existing.get("spec") or {}).get("training") or {}).get("source") or {}
        older = existing["metadata"]["creationTimestamp"] < created
        if older or (source.get("archive") or {}).get("name") != code["metadata"]["name"]:
            return None
        self._made.append((path, {"kind": KIND} | existing))
        return existing

    def _own(self, code: Json, job: Json) -> None:
        """Make the job the owner of its code, which is then deleted with it."""
        owner = {key: job["metadata"][key] for key in ("name", "uid")} | {"apiVersion": API_VERSION, "kind": KIND}
        change = {"metadata": {"ownerReferences": [owner]}}
        path = _config_maps(code["metadata"]["namespace"])
        try:
            self._api.request("PATCH", f"{path}/{code['metadata']['name']}", change, content_type=_STRATEGIC_PATCH)
        except NotFound:
            # It was that of an earlier job of the same name, and has been deleted with it.
            self._create(path, code | {"metadata": code["metadata"] | change["metadata"]})


def _config_maps(namespace: str) -> str:
    return f"/api/v1/namespaces/{quote(namespace, safe='')}/configmaps"


def _in_namespace(config_map: Mapping[str, Any], place: Json) -> Json:
    metadata = place | dict(config_map.get("metadata") or {})
    return {"apiVersion": "v1", "kind": "ConfigMap"} | dict(config_map) | {"metadata": metadata}


def _code(metadata: Json, archive: CodeArchive) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "immutable": True,
        "binaryData": {ARCHIVE_KEY: base64.b64encode(archive.content).decode()},
    }


def _with_source(job: Json, config_map: str) -> Json:
    spec = job.get("spec") or {}
    training = spec.get("training")
    if not isinstance(training, dict) or not (training.get("script") or training.get("program")):
        raise Invalid("spec.training: neither a script nor a program uses the code; set training.script")
    source = {"source": {"archive": {"name": config_map}}}
    return job | {"spec": spec | {"training": training | source}}
