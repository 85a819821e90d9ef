"""A job together with the ConfigMaps that it needs, before any of them is created."""

import base64
import os
import secrets
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tfdist import validation
from tfdist.api.resource import API_VERSION, KIND
from tfdist.api.sweep_resource import SWEEP_KIND
from tfdist.api.v1 import TFDistJob
from tfdist.client.api_server import Json
from tfdist.client.code_archive import CodeArchive, pack
from tfdist.client.code_store import CodeUpload
from tfdist.client.errors import Invalid
from tfdist.client.new_job import job_spec_of
from tfdist.client.overrides import with_values
from tfdist.render.source import ARCHIVE_KEY, part_names
from tfdist.validation import ValidationFailed
from tfdist.validation.sweep import parse_sweep

if TYPE_CHECKING:
    from tfdist.client.requirements import Requirements

_CHARACTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
"""The characters of the API server's `generateName`: without vowels, so that they form no word."""
_SUFFIX: Final = 5


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
    """A job or sweep, its user's ConfigMaps, which outlive it, and the ConfigMaps of its code, which go with it."""

    job: Json
    config_maps: tuple[Json, ...] = ()
    code: tuple[Json, ...] = ()
    upload: CodeUpload | None = None
    """Code for an object store, in place of ConfigMaps."""
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    """Annotation of all objects: it identifies the objects of a request whose answer was lost."""

    def in_namespace(self, namespace: str) -> "Submission":
        """Return the same objects; an object without a namespace gets this one."""
        place = {"namespace": namespace}
        job, *others = [
            manifest | {"metadata": place | manifest["metadata"]}
            for manifest in (self.job, *self.config_maps, *self.code)
        ]
        count = len(self.config_maps)
        return replace(self, job=job, config_maps=tuple(others[:count]), code=tuple(others[count:]))


def prepare(
    job: Json, namespace: str, archive: CodeArchive | None = None, config_maps: Sequence[Mapping[str, Any]] = ()
) -> Submission:
    """Return what to create for a job or sweep, with the code of an archive in place of its own source.

    Args:
        job: the manifest.
        namespace: for a job without a namespace; "" leaves it out.
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
    if archive.store is not None:
        upload = CodeUpload.of(archive, archive.store)
        return Submission(_with_source(job, {"object": upload.source}), required_maps, upload=upload)
    if not metadata.get("name"):
        raise Invalid("metadata.name: a job with a folder of code needs a name; set name or generateName")
    source: Json = {"name": f"{metadata['name']}-code-{archive.digest}", "sha256": archive.sha256}
    if len(archive.parts) > 1:
        source["parts"] = len(archive.parts)
    code = tuple(
        _code({"name": name} | place, part) for name, part in zip(part_names(source), archive.parts, strict=True)
    )
    return Submission(_with_source(job, {"archive": source}), required_maps, code)


def prepare_changed(
    job: Json,
    namespace: str,
    code: str | os.PathLike[str] | CodeArchive | None,
    values: Mapping[str, Any],
    config_maps: Sequence[Mapping[str, Any]],
    include: Sequence[str] = (),
    *,
    store: str | None = None,
    requirements: "Requirements | None" = None,
    here: bool = False,
) -> Submission:
    """Return what to create for a job with other values of fields, and with a folder or script of code.

    A job that is changed here is validated here. Files of the folder that may contain credentials are left out, with a
    warning of Python, except for those that `include` names. With `store`, see `code_store.store_of`, the code goes to
    an object store. `requirements` are locked, and go with the code; `here` if the job runs on this machine.

    Raises:
        Invalid: a path is malformed, or the changed job is invalid.
        CodeError: the code cannot be packed.
        RequirementsError: the requirements cannot be locked.
    """
    job = with_values(job, values)
    lock = None
    if requirements is not None:
        from tfdist.client.requirements import lock_for  # noqa: PLC0415  most jobs have no packages

        lock = lock_for(job, requirements, _folder(code), here=here)
    generated = lock.files if lock else None
    archive = code if code is None or isinstance(code, CodeArchive) else pack(Path(code), include, store, generated)
    if lock is not None:
        lock.check(archive)
    if archive is not None and archive.warning:
        warnings.warn(archive.warning, stacklevel=2)
    submission = prepare(job, namespace, archive, config_maps)
    if values or archive is not None:
        check(submission.job)
    return submission


def _folder(code: "str | os.PathLike[str] | CodeArchive | None") -> Path | None:
    """Return the folder of code that requirements may refer to.

    Raises:
        Invalid: the code is packed already, and can take no file of requirements.
    """
    if isinstance(code, CodeArchive):
        raise Invalid("requirements: the code is packed already; give its folder, or packages of tfdist.job")
    return Path(code) if code is not None and Path(code).is_dir() else None


def check(manifest: Json) -> None:
    """Validate a job or sweep without a cluster.

    Raises:
        Invalid: with all errors.
    """
    try:
        if manifest["kind"] == SWEEP_KIND:
            parse_sweep(manifest)
        else:
            validation.parse(manifest)
    except ValidationFailed as error:
        raise Invalid(str(error)) from None


def _in_namespace(config_map: Mapping[str, Any], place: Json) -> Json:
    metadata = place | dict(config_map.get("metadata") or {})
    return {"apiVersion": "v1", "kind": "ConfigMap"} | dict(config_map) | {"metadata": metadata}


def training_of(job: Json) -> Any:
    """Return `training` of a job, or of the jobs of a sweep."""
    return job_spec_of(job).get("training")


def _code(metadata: Json, content: bytes) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "immutable": True,
        "binaryData": {ARCHIVE_KEY: base64.b64encode(content).decode()},
    }


def _with_source(job: Json, source: Json) -> Json:
    training = training_of(job)
    if not isinstance(training, dict) or not (training.get("script") or training.get("program")):
        raise Invalid("spec.training: neither a script nor a program uses the code; set training.script")
    change = {"training": training | {"source": source}}
    spec = job["spec"]
    if job.get("kind") != SWEEP_KIND:
        return job | {"spec": spec | change}
    template = spec["template"]
    return job | {"spec": spec | {"template": template | {"spec": template["spec"] | change}}}
