"""Copies the files of the base that the controller's image needs to a folder: Python, its libraries, certificates.

The image consists of that folder and the virtual environment: no shell, no package manager, no compiler. The status of
the Debian packages of the files is copied to `/var/lib/dpkg/status.d`, where image scanners read it.

Usage: `python3 image_root.py FOLDER VENV`, in the stage of the Dockerfile that has installed the virtual environment.
"""

import compileall
import py_compile
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path
from typing import Final

UNUSED: Final = (
    "__pycache__", "dist-packages", "site-packages", "ensurepip", "idlelib", "lib2to3", "pydoc_data", "test", "tkinter",
    "turtledemo", "_tkinter.*", "readline.*", "_curses*", "config-3*", "sitecustomize.py",
)  # fmt: skip
"""Parts of the standard library that the image lacks: tests, editors, modules for windows or terminals."""
CERTIFICATES: Final = Path("/etc/ssl/certs/ca-certificates.crt")
SETTINGS: Final = (Path("/etc/nsswitch.conf"), Path("/etc/ld.so.cache"), Path("/usr/lib/os-release"))
MERGED: Final = ("lib", "lib64")
"""Folders of the root that are links to folders of /usr; programs name the dynamic loader by them."""


def main(folder: Path, environment: Path) -> None:
    """Copy the files to `folder` that the programs of the virtual environment `environment` need."""
    for name in MERGED:
        _link(Path("/", name), folder)
    library = Path(sysconfig.get_path("stdlib"))
    shutil.copytree(library, folder / library.relative_to("/"), ignore=shutil.ignore_patterns(*UNUSED))
    python = Path(sys.executable)
    modules = [*(folder / library.relative_to("/")).rglob("*.so"), *environment.rglob("*.so*")]
    copied = {*_copy([python, CERTIFICATES, *SETTINGS], folder), *_copy(libraries([python, *modules]), folder)}
    _write_packages(copied | {library / "os.py"}, folder / "var/lib/dpkg/status.d")
    (folder / "tmp").mkdir()
    (folder / "tmp").chmod(0o1777)
    compiled = compileall.compile_dir(
        folder / library.relative_to("/"), quiet=1, force=True, workers=0, stripdir=str(folder), prependdir="/",
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
    )  # fmt: skip
    if not compiled:
        raise SystemExit("Python's library could not be compiled")


def libraries(files: Iterable[Path]) -> set[Path]:
    """Return the shared libraries that programs and modules load, theirs included, as `ldd` finds them."""
    output = subprocess.run(["ldd", *map(str, files)], capture_output=True, text=True, check=False).stdout
    return {Path(path) for path in re.findall(r"^\s+(?:\S+ => )?(/\S+) \(0x", output, flags=re.MULTILINE)}


def _copy(paths: Iterable[Path], folder: Path) -> set[Path]:
    """Copy files to the same path below `folder`, with all symbolic links; return their resolved paths."""
    for path in paths:
        place = path.parent.resolve() / path.name
        while place.is_symlink():
            _link(place, folder)
            place = (place.parent / place.readlink()).parent.resolve() / place.readlink().name
        target = folder / place.relative_to("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(place, target)
    return {path.resolve() for path in paths}


def _link(path: Path, folder: Path) -> None:
    copy = folder / path.relative_to("/")
    if path.is_symlink() and not copy.is_symlink():
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.symlink_to(path.readlink())


def _write_packages(files: Iterable[Path], folder: Path) -> None:
    """Write the status of the Debian package of every file; files of Python may be in no package."""
    folder.mkdir(parents=True)
    names = {str(path) for path in files}
    both = names | {name.removeprefix("/usr") for name in names}  # dpkg records many with the link /lib
    text = subprocess.run(["dpkg-query", "--search", *sorted(both)], capture_output=True, text=True, check=False).stdout
    for package in sorted(set(re.findall(r"^([^\s,:]+)(?::\w+)?: /", text, flags=re.MULTILINE))):
        status = subprocess.run(["dpkg-query", "--status", package], capture_output=True, text=True, check=True).stdout
        (folder / package).write_text(status, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
