"""Source code of a program or script if it is not in the image: a volume on `PYTHONPATH`, before the job's own."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Final

from tfdist import contract
from tfdist.api.source import ArchiveSource, SourceSpec
from tfdist.api.training import TrainingSpec

VOLUME: Final = "tfdist-source"
MOUNT_PATH: Final = "/opt/tfdist/source"
FETCH_CONTAINER: Final = "tfdist-fetch"
PACKAGES_PATH: Final = "/opt/tfdist/packages"
"""Folder of the packages of `training.requirements`."""
ARCHIVE_VOLUME: Final = "tfdist-archive"
ARCHIVE_KEY: Final = "code.tar.gz"
"""Key of each ConfigMap of `training.source.archive`."""

PYTHON_PATH_ENV: Final = "PYTHONPATH"
_OWN_PATH_ENV: Final = "TFDIST_PYTHONPATH"
"""The job's `PYTHONPATH` if it comes from another object, so that its value is unknown here."""

_ARCHIVE_PATH: Final = "/opt/tfdist/archive"
_OWN_FOLDER: Final = "/opt/tfdist"
_OF_THE_IMAGE: Final = ("LD_", "PYTHON")
"""Beginnings of variables that are meant for the image of the job."""


def part_names(archive: Mapping[str, Any]) -> list[str]:
    """Return the names of the ConfigMaps of `training.source.archive`, in the order of their content."""
    name = archive["name"]
    return [name, *(f"{name}-{number}" for number in range(1, archive.get("parts") or 1))]


def overlay(
    training: TrainingSpec | None, fetch_image: str, requested: Mapping[str, Any], *, as_root: bool = False
) -> dict[str, Any]:
    """Return the part of the pod template that mounts the code; empty if the code is in the image.

    Args:
        training: the job's `training`.
        fetch_image: image of the init container that fetches a Git repository, or fetches and unpacks an archive.
        requested: the container without this; its `PYTHONPATH` is left to `with_source_first`.
        as_root: whether the pod sets the user 0, which the kubelet rejects with `runAsNonRoot`.
    """
    code = training.source if training else None
    if code is None:
        return {}
    folder, folders = code_directory(code), _python_folders(training)
    container: dict[str, Any] = {
        "name": contract.MAIN_CONTAINER,
        "volumeMounts": [{"name": VOLUME, "mountPath": MOUNT_PATH, "readOnly": True}],
    }
    if not any(variable["name"] == PYTHON_PATH_ENV for variable in requested.get("env", ())):
        # the kubelet leaves the reference as text if `envFrom` has no such variable: a folder that does not exist
        value = f"{folders}:$({PYTHON_PATH_ENV})" if requested.get("envFrom") else folders
        container["env"] = [{"name": PYTHON_PATH_ENV, "value": value}]
    if training is not None and training.script is not None:
        container["workingDir"] = folder  # where the script finds the files next to it, as by `python train.py`
    spec: dict[str, Any] = {"containers": [container], "volumes": [{"name": VOLUME} | _volume(code)]}
    if code.git is not None:
        arguments = [code.git.repository, code.git.revision]
        spec["initContainers"] = [_fetch(arguments, fetch_image, as_root=as_root)]
    elif code.archive is not None:
        volume, files = _archive(code.archive)
        spec["volumes"].append({"name": ARCHIVE_VOLUME} | volume)
        fetch = _fetch([*_hash(code.archive.sha256), *files], fetch_image, as_root=as_root)
        fetch["volumeMounts"].append({"name": ARCHIVE_VOLUME, "mountPath": _ARCHIVE_PATH, "readOnly": True})
        spec["initContainers"] = [fetch]
    elif code.object is not None:
        fetch = _fetch([*_hash(code.object.sha256), code.object.url], fetch_image, as_root=as_root)
        spec["initContainers"] = [_with_access(fetch, requested)]
    return {"spec": spec}


def with_source_first(training: TrainingSpec | None, env: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Yield the variables of a container, code and packages before the other folders of its `PYTHONPATH`."""
    folders = _python_folders(training)
    for variable in env:
        if not folders or variable["name"] != PYTHON_PATH_ENV:
            yield variable
            continue
        own = variable.get("value") or ""
        if "valueFrom" in variable:
            yield {**variable, "name": _OWN_PATH_ENV}
            own = f"$({_OWN_PATH_ENV})"
        added = not f"{own}:".startswith(f"{folders}:")
        yield {"name": PYTHON_PATH_ENV, "value": f"{folders}:{own}".rstrip(":") if added else own}


def _python_folders(training: TrainingSpec | None) -> str:
    """Return the folders that a job adds to `PYTHONPATH`: its code, then its packages."""
    if training is None or training.source is None:
        return ""
    packages = [PACKAGES_PATH] if training.requirements is not None else []
    return ":".join([code_directory(training.source), *packages])


def code_directory(code: SourceSpec) -> str:
    """Return the path of the code in a pod: the root of the source, or `directory` in it."""
    place = code.git or code.persistent_volume_claim
    directory = (place.directory if place else None) or ""
    return f"{MOUNT_PATH}/{directory}".rstrip("/")


def _volume(code: SourceSpec) -> dict[str, Any]:
    if code.config_map is not None:
        return {"configMap": {"name": code.config_map.name}}
    if code.persistent_volume_claim is not None:
        return {"persistentVolumeClaim": {"claimName": code.persistent_volume_claim.claim_name, "readOnly": True}}
    return {"emptyDir": {}}


def _archive(archive: ArchiveSource) -> tuple[dict[str, Any], list[str]]:
    """Return the volume with the parts of an archive, and the paths of its files."""
    if archive.parts == 1:
        return {"configMap": {"name": archive.name}}, [f"{_ARCHIVE_PATH}/{ARCHIVE_KEY}"]
    names = part_names({"name": archive.name, "parts": archive.parts})
    files = [f"{ARCHIVE_KEY}.{number}" for number in range(archive.parts)]
    parts = [
        {"configMap": {"name": name, "items": [{"key": ARCHIVE_KEY, "path": file}]}}
        for name, file in zip(names, files, strict=True)
    ]
    return {"projected": {"sources": parts}}, [f"{_ARCHIVE_PATH}/{file}" for file in files]


def _hash(sha256: str | None) -> list[str]:
    return ["--sha256", sha256] if sha256 else []


def _with_access(fetch: dict[str, Any], container: Mapping[str, Any]) -> dict[str, Any]:
    """Return the init container with the variables and volumes of the job, which may have its credentials."""
    env = [each for each in container.get("env", ()) if not each["name"].startswith(_OF_THE_IMAGE)]
    mounts = [
        {key: value for key, value in mount.items() if key != "mountPropagation"} | {"readOnly": True}
        for mount in container.get("volumeMounts", ())
        # the variables of `subPathExpr` may be those of replicas alone
        if not mount.get("subPathExpr") and not _hides_source(PurePosixPath(mount["mountPath"]))
    ]
    access = {"env": env, "envFrom": container.get("envFrom"), "volumeMounts": [*fetch["volumeMounts"], *mounts]}
    return fetch | {name: value for name, value in access.items() if value}


def _hides_source(path: PurePosixPath) -> bool:
    return path.is_relative_to(_OWN_FOLDER) or PurePosixPath(_OWN_FOLDER).is_relative_to(path)


def _fetch(arguments: Sequence[str], image: str, *, as_root: bool) -> dict[str, Any]:
    """Return the init container that writes to the volume what `arguments` name: a revision, files, or a URL."""
    return {
        "name": FETCH_CONTAINER,
        "image": image,
        "command": ["python", "-m", "tfdist_trainer.fetch", *arguments, MOUNT_PATH],
        "securityContext": init_security(as_root=as_root),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [{"name": VOLUME, "mountPath": MOUNT_PATH}],
    }


def init_security(*, as_root: bool) -> dict[str, Any]:
    """Return the security context of an init container; `as_root` if the pod sets the user 0."""
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": not as_root,
    }
