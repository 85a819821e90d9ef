"""The wheels that an image installs, downloaded on this machine and checked against the locked hashes.

One folder for all images. A marker `<hash of the requirements>.json` lists the files of one download; it is
written last, so the download is whole if it and its files are there. pip checks every hash again
when it installs them.
"""

import hashlib
import json
import platform
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tfdist_cluster import console, shell
from tfdist_cluster.content import remove
from tfdist_images import programs, store

PYTHON_VERSION: Final = "3.11"
NEWEST_GLIBC_MINOR: Final = 36
"""Of the base's suite; wheels for any older C library run on it too."""


def folder() -> Path:
    """Return the folder of all wheels."""
    return store.folder("wheels")


def download(requirements: Path) -> None:
    """Download what `requirements` locks, unless an earlier run has, for the base's Python and this processor."""
    digest = hashlib.sha256(requirements.read_bytes()).hexdigest()[:16]
    marker = folder() / f"{requirements.stem}-{digest}.json"
    if _is_complete(marker):
        return
    with (
        console.step(f"wheels of {requirements.name}", expected_seconds=20),
        store.complete_or_absent(marker) as marker_file,
    ):
        fresh = folder() / f".fresh-{requirements.stem}"
        remove(fresh)
        fresh.mkdir()
        shell.run(
            [*pip(), *pip_arguments(fresh, requirements, platform.machine())],
            log=store.log(f"wheels-{requirements.stem}"),
        )
        names = sorted(wheel.name for wheel in fresh.iterdir())
        for name in names:
            (fresh / name).replace(folder() / name)
        fresh.rmdir()
        marker_file.write_text(json.dumps(names))


def _is_complete(marker: Path) -> bool:
    return marker.exists() and all((folder() / name).exists() for name in json.loads(marker.read_text()))


def pip_arguments(destination: Path, requirements: Path, machine: str) -> Sequence[str]:
    """Return pip's arguments for a download that depends neither on this Python's version nor on this C library."""
    platforms = [f"manylinux_2_{minor}_{machine}" for minor in range(NEWEST_GLIBC_MINOR, 4, -1)]
    platforms += [f"{tag}_{machine}" for tag in ("manylinux2014", "manylinux2010", "manylinux1", "linux")]
    return [
        "download", "--disable-pip-version-check", "--progress-bar=off", "--require-hashes", "--no-deps",
        "--only-binary=:all:", "--implementation=cp", f"--python-version={PYTHON_VERSION}",
        *(f"--platform={name}" for name in platforms),
        f"--find-links={folder()}", f"--dest={destination}", f"--requirement={requirements}",
    ]  # fmt: skip


def pip() -> list[str]:
    """Return a command that runs pip: this interpreter's pip, or the pip of Debian's package."""
    if shell.succeeds([sys.executable, "-m", "pip", "--version"]):
        return [sys.executable, "-m", "pip"]
    if not shutil.which("pip3"):
        programs.need({"pip3": "python3-pip"})
    return ["pip3"]
