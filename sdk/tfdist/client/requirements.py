"""The packages of a job: a file of requirements, or a list, becomes one with the version and hash of every wheel.

It is made when a job is submitted, and goes with its code, so that all pods and attempts install the same files.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

from tfdist.client import requirements_file
from tfdist.client.code_archive import CodeArchive
from tfdist.client.errors import Invalid, RequirementsError
from tfdist.client.new_job import job_spec_of
from tfdist.client.requirements_file import Requirement, RequirementsFile
from tfdist.contract import MAIN_CONTAINER
from tfdist.package_installation import LOCK

Requirements = str | os.PathLike[str] | Sequence[str]
"""The path of a file, or a list of packages, such as `["einops>=0.8"]`."""

_ROLES: Final = ("chief", "worker", "ps", "evaluator")
_FIND_LINKS: Final = "--find-links"
_HASHES: Final = "uv pip compile --generate-hashes writes them"


@dataclass(frozen=True, slots=True)
class Lock:
    """The file that goes with a job, and the wheels and folders of the code that it refers to."""

    content: bytes
    wheels: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()

    @property
    def files(self) -> dict[str, bytes]:
        """The file by its path in the code."""
        return {LOCK: self.content}

    def check(self, archive: CodeArchive | None) -> None:
        """Check that the code has the wheels.

        Raises:
            RequirementsError: there is no code, or it lacks a wheel.
        """
        if archive is None:
            raise RequirementsError("requirements: the packages are named in the job's code; add its folder (--code)")
        missing = [wheel for wheel in self.wheels if wheel not in archive.files]
        missing += [each for each in self.folders if not any(_is_below(name, each) for name in archive.files)]
        if missing:
            raise RequirementsError(
                f"{missing[0]}: the code of the job does not have these wheels: check .gitignore and .tfdistignore"
            )


def lock_for(job: dict[str, Any], requirements: Requirements, code: Path | None, *, here: bool = False) -> Lock:
    """Return the lock of the packages of a job or sweep, and name it in its `training.requirements`.

    Args:
        job: the manifest, which is changed.
        requirements: a file, or a list of packages.
        code: the folder of the job's code; None for a script alone.
        here: whether the job runs on this machine, with its Python and platform.

    Raises:
        Invalid: the job has no script or program.
        RequirementsError: the file cannot be read, or no wheels satisfy the requirements.
    """
    spec = job_spec_of(job)
    training = spec.get("training")
    if not isinstance(training, dict) or not (training.get("script") or training.get("program")):
        raise Invalid("spec.training: neither a script nor a program uses the packages; set training.script")
    lock = locked(requirements, code, own_image=_has_own_image(spec), here=here)
    training["requirements"] = LOCK
    return lock


def locked(requirements: Requirements, code: Path | None, *, own_image: bool = False, here: bool = False) -> Lock:
    """Return a file with the version and hashes of each requirement, and of what they depend on.

    A file in which each requirement has hashes stays as it is, without the packages of the trainer's image. For any
    other the pip of this Python finds the wheels for the Python and the platform of that image.

    Args:
        requirements: a file, or a list of packages.
        code: the folder of the job's code, whose folders of wheels the file may name.
        own_image: whether an image of the user's runs, whose Python and packages are unknown here.
        here: for the Python and platform of this machine.

    Raises:
        RequirementsError: see `lock_for`.
    """
    file = _file_of(requirements)
    unhashed = [each for each in file.requirements if not each.has_hash]
    if not file.is_nested and not unhashed:
        return _as_it_is(file, code, own_image=own_image)
    if own_image:
        line = f" line {unhashed[0].begin + 1}" if unhashed else ""
        raise RequirementsError(
            f"{file.label}{line}: the Python and packages of an image of your own are unknown here, so each "
            f"requirement needs its version and hash in this file: {_HASHES}"
        )
    if len(unhashed) < len(file.requirements):
        raise file.refuse(
            unhashed[0].begin if unhashed else 0, f"some requirements have hashes, and this one has none: {_HASHES}"
        )
    return _resolved(file, code, here=here)


def _file_of(requirements: Requirements) -> RequirementsFile:
    if isinstance(requirements, str | os.PathLike):
        return requirements_file.read(Path(requirements))
    return requirements_file.of_packages(requirements)


def _has_own_image(spec: Mapping[str, Any]) -> bool:
    """Return whether a job or one of its roles sets an image; `spec` may be malformed."""
    levels = [spec, *(spec.get(role) for role in _ROLES)]
    return any(_sets_image(level) for level in levels if isinstance(level, Mapping))


def _sets_image(level: Mapping[str, Any]) -> bool:
    template = level.get("template")
    pod = template.get("spec") if isinstance(template, Mapping) else None
    containers = pod.get("containers") if isinstance(pod, Mapping) else None
    named = [each for each in containers or () if isinstance(each, Mapping) and each.get("name") == MAIN_CONTAINER]
    return bool(level.get("image") or any(each.get("image") for each in named))


def _as_it_is(file: RequirementsFile, code: Path | None, *, own_image: bool) -> Lock:
    """Return the lines of a file without the image's packages; folders of wheels are relative to the code."""
    lines: list[str | None] = list(file.lines)
    for each in () if own_image else _of_the_image(file):
        lines[each.begin : each.end] = [None] * (each.end - each.begin)
    folders = []
    for option in file.options:
        if option.name == _FIND_LINKS and "://" not in option.value:
            folders.append(_in_code(file, option.line, option.value, code))
            lines[option.line] = f"{_FIND_LINKS} {folders[-1]}"
    kept = [line for line in lines if line is not None]
    return Lock("\n".join(kept).encode(), folders=tuple(folders))


def _of_the_image(file: RequirementsFile) -> Iterator[Requirement]:
    """Yield the requirements that the trainer's image has.

    Raises:
        RequirementsError: it has another version of one.
    """
    from tfdist.client.pip_resolution import trainer_image  # noqa: PLC0415  most jobs have no packages

    packages = trainer_image()["packages"]
    for each in file.requirements:
        version = packages.get(each.name)
        if version is None:
            continue
        if each.version != version:
            raise file.refuse(
                each.begin, f"the trainer's image has {each.name} {version}: remove the line, lock the others for this "
                "version, or build an image of your own (--image)"
            )  # fmt: skip
        yield each


def _resolved(file: RequirementsFile, code: Path | None, *, here: bool) -> Lock:
    from tfdist.client.pip_resolution import name_of, resolve  # noqa: PLC0415  most jobs have no packages

    places, folders = _places(file, code)
    lines, wheels = [], []
    for item in sorted(resolve(file, here=here), key=name_of):
        download = item["download_info"]
        digest = (download.get("archive_info") or {}).get("hashes", {}).get("sha256")
        path = _path_of(download["url"])
        if digest is None or (item["is_direct"] and path is not None):
            raise RequirementsError(
                f"{file.label}: {item['metadata']['name']} comes from {download['url']}, which the pods do not have: "
                "put its wheel in a folder of the code, with the line --find-links FOLDER"
            )
        target = f" @ {download['url']}" if item["is_direct"] else f"=={item['metadata']['version']}"
        lines.append(f"{item['metadata']['name']}{target} --hash=sha256:{digest}")
        if path is not None and path.parent in folders:
            wheels.append((PurePosixPath(folders[path.parent]) / path.name).as_posix())
    heading = (
        f"# {Path(file.label).name}, locked by TFDist with the version and hash of each wheel that the image lacks"
    )
    return Lock("\n".join([heading, *places, *lines, ""]).encode(), tuple(wheels))


def _places(file: RequirementsFile, code: Path | None) -> tuple[list[str], dict[Path, str]]:
    """Return the lines that say where files are, and the folders of wheels with their paths in the code."""
    lines, folders = [], {}
    for option in file.options:
        value = option.value
        if option.name == _FIND_LINKS and "://" not in value:
            value = _in_code(file, option.line, value, code)
            folders[(file.folder / option.value).resolve()] = value
        lines.append(f"{option.name} {value}".rstrip())
    return lines, folders


def _in_code(file: RequirementsFile, line: int, value: str, code: Path | None) -> str:
    """Return the path of a folder of wheels relative to the code."""
    folder = (file.folder / value).resolve()
    if code is None or not folder.is_relative_to(code.resolve()):
        raise file.refuse(line, f"{value} is not in the code of the job, so the pods do not have it; add it (--code)")
    return folder.relative_to(code.resolve()).as_posix()


def _is_below(path: str, folder: str) -> bool:
    return PurePosixPath(path).is_relative_to(PurePosixPath(folder))


def _path_of(url: str) -> Path | None:
    """Return the path of a file of this machine; None for any other URL."""
    parts = urlsplit(url)
    return Path(url2pathname(unquote(parts.path))) if parts.scheme == "file" else None
