"""Asks the pip of this Python which wheels satisfy requirements in the trainer's image, and installs none of them.

No job installs a package of the image again: a second NumPy would come before the image's.
"""

import json
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from packaging.requirements import InvalidRequirement, Requirement

from tfdist.client.errors import RequirementsError
from tfdist.client.requirements_file import RequirementsFile, normalized

Item = Mapping[str, Any]
"""A distribution in pip's report of an installation."""

_FILE: Final = "trainer_packages.json"
OWN: Final = frozenset({"tfdist", "tfdist-trainer"})
"""Distributions of this project in the image."""
_OWN_IMAGE: Final = "build an image of your own with these packages and name it with --image (spec.image)"
_NEWEST_GLIBC: Final = 28
_OLDEST_GLIBC: Final = 5
_ROUNDS: Final = 10
_CONFLICT: Final = re.compile(r"The conflict is caused by:\n((?: {4}.{1,1024}\n){1,40})")
_CONSTRAINT: Final = re.compile(r"^The user requested \(constraint\) ([A-Za-z0-9._-]{1,214}).*$")
_ERROR_LINE: Final = re.compile(r"^ERROR: (.{1,2048})$", re.MULTILINE)
_NO_OPTION: Final = re.compile(r"no such option: (?:--dry-run|--report)")


def resolve(file: RequirementsFile, *, here: bool) -> list[Item]:
    """Return the distributions that pip would install, without those that the trainer's image has.

    Args:
        file: the requirements.
        here: for this machine, with its Python and platform, instead of those of the trainer's image.

    Raises:
        RequirementsError: there is no pip, no wheel fits, or the requirements conflict with the image's packages.
    """
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        constraints = write_constraints(folder)
        added: list[str] = []
        for _ in range(_ROUNDS):
            items = _report(file, folder, constraints, added, here=here)
            missing = [] if here else _left_out(items)
            if not missing:
                break
            added += missing
    known = trainer_image()["packages"].keys() | OWN
    return [item for item in items if name_of(item) not in known]


def name_of(item: Item) -> str:
    """Return the normalized name of a distribution."""
    return normalized(item["metadata"]["name"])


def _report(file: RequirementsFile, folder: Path, constraints: Path, added: Sequence[str], *, here: bool) -> list[Item]:
    report = folder / "report.json"
    path = (file.path or folder / "requirements.txt").resolve()  # pip reads paths in a file relative to it
    if file.path is None:
        path.write_text("\n".join(file.lines) + "\n", encoding="utf-8")
    command = [
        sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--disable-pip-version-check",
        "--no-input", "--progress-bar=off", "--retries=2", "--only-binary=:all:", *([] if here else _of_the_image()),
        "--target", str(folder / "target"), "--report", str(report), "--constraint", str(constraints),
        "--requirement", str(path), *added,
    ]  # fmt: skip
    done = subprocess.run(command, check=False, capture_output=True, text=True, errors="replace", cwd=path.parent)
    if done.returncode:
        raise RequirementsError(f"{file.label}: {_reason(done.stdout + done.stderr)}")
    items: list[Item] = json.loads(report.read_text(encoding="utf-8"))["install"]
    return items


def _of_the_image() -> list[str]:
    """Return the options for the Python and the platform of the trainer's image."""
    tags = [f"manylinux_2_{minor}" for minor in range(_NEWEST_GLIBC, _OLDEST_GLIBC - 1, -1)]
    tags += ["manylinux2014", "manylinux2010", "manylinux1", "linux"]
    version = trainer_image()["python"]
    return ["--implementation=cp", f"--python-version={version}", *(f"--platform={tag}_x86_64" for tag in tags)]


def _left_out(items: Sequence[Item]) -> list[str]:
    """Return the dependencies that apply in the image, and that pip left out: it evaluates markers for this Python."""
    version = trainer_image()["python"]
    environment = {
        "implementation_name": "cpython",
        "os_name": "posix",
        "platform_machine": "x86_64",
        "platform_python_implementation": "CPython",
        "platform_system": "Linux",
        "python_full_version": f"{version}.0",
        "python_version": version,
        "sys_platform": "linux",
    }
    found, left_out = {name_of(item) for item in items}, []
    for item in items:
        extras = ["", *item.get("requested_extras", ())]
        for text in item["metadata"].get("requires_dist") or ():
            try:
                needed = Requirement(text)
            except InvalidRequirement:
                continue
            applies = needed.marker is None or any(
                needed.marker.evaluate({**environment, "extra": extra}) for extra in extras
            )
            if applies and normalized(needed.name) not in found:
                needed.marker = None
                left_out.append(str(needed))
    return left_out


def _reason(output: str) -> str:
    """Return in a sentence why pip found no wheels, and the remedy."""
    if re.search(r"No module named pip\b", output):
        return (
            f"{sys.executable} has no pip, which finds the versions and hashes: install it (python -m ensurepip), or "
            "give a file with hashes (uv pip compile --generate-hashes)"
        )
    if _NO_OPTION.search(output):
        return "this pip is older than 22.2: python -m pip install --upgrade pip"
    if (conflict := _CONFLICT.search(output)) is not None:
        facts = [_fact(line.strip()) for line in conflict[1].splitlines()]
        remedy = f"choose other versions, or {_OWN_IMAGE}"
        return f"the requirements conflict: {', and '.join(dict.fromkeys(facts))}; {remedy}"
    errors = _ERROR_LINE.findall(output)
    remedy = f"give the index by PIP_INDEX_URL or another version, or {_OWN_IMAGE}"
    words = " ".join((errors[-1] if errors else output[-1024:]).split())
    return f"{words} (as a wheel for the pods); {remedy}"


def _fact(line: str) -> str:
    """Return a line of pip about a conflict; what it calls a constraint is a package of the image."""
    match = _CONSTRAINT.match(line)
    if match is None:
        return line
    return f"the trainer's image has {match[1]} {trainer_image()['packages'].get(normalized(match[1]), '')}".rstrip()


@cache
def trainer_image() -> Mapping[str, Any]:
    """Return `python`, the version of Python in the trainer's image, and `packages`: versions by normalized names."""
    content: Mapping[str, Any] = json.loads(files("tfdist.client").joinpath(_FILE).read_text(encoding="utf-8"))
    return content


def write_constraints(folder: Path) -> Path:
    """Write a file of constraints that names an empty wheel for each package of the image, and return its path.

    pip takes these wheels whatever the index has, and so needs neither to download TensorFlow to read its
    dependencies, nor to find it in a folder of wheels.
    """
    lines = []
    for name, version in trainer_image()["packages"].items():
        wheel = _empty_wheel(folder, name, version)
        lines.append(f"{name} @ {wheel.as_uri()}")
    constraints = folder / "constraints.txt"
    constraints.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return constraints


def _empty_wheel(folder: Path, name: str, version: str) -> Path:
    stem = f"{name.replace('-', '_')}-{version}"
    path = folder / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{stem}.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        wheel.writestr(f"{stem}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{stem}.dist-info/RECORD", "")
    return path
