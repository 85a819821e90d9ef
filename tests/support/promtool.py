"""promtool, which knows Prometheus' language: the one on the path, else that of Debian's package, not installed."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tfdist_cluster.paths import State


def promtool() -> Path:
    """Return the program; the test is skipped where there is none and no Debian to fetch one from."""
    found = shutil.which("promtool")
    if found:
        return Path(found)
    folder = State.from_environment().folder("promtool")
    program = folder / "usr/bin/promtool"
    if not program.exists():
        _fetch(folder)
    return program


def _fetch(folder: Path) -> None:
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        pytest.skip("needs promtool: install Prometheus")
    fetch = ["apt-get", "-qq", "download", "prometheus"]
    if subprocess.run(fetch, cwd=folder, check=False, timeout=300).returncode:
        subprocess.run(["apt-get", "-qq", "update"], check=True, timeout=300)
        subprocess.run(fetch, cwd=folder, check=True, timeout=300)
    (archive,) = folder.glob("prometheus_*.deb")
    unpacked = folder / "unpacked"
    subprocess.run(["dpkg-deb", "--extract", archive, unpacked], check=True)
    (folder / "usr/bin").mkdir(parents=True, exist_ok=True)
    (unpacked / "usr/bin/promtool").replace(folder / "usr/bin/promtool")  # last: it is either whole or absent
    shutil.rmtree(unpacked)
    archive.unlink()
