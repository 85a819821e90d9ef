"""A build that is killed in its middle leaves nothing that is taken for complete, no process and no mount."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tfdist_cluster import content, gobuild, rootfs, shell
from tfdist_cluster.paths import CLUSTER, State

pytestmark = [pytest.mark.e2e, pytest.mark.long, pytest.mark.timeout(900)]


def test_a_killed_build_is_completed_by_the_next(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "PYTHONPATH": str(CLUSTER),
        "TFDIST_STATE": str(tmp_path),
        "TFDIST_CACHE": str(tmp_path / "cache"),
    }
    command = [sys.executable, "-m", "tfdist_cluster", "build", "rootfs", "kube"]
    state = State(tmp_path, tmp_path / "cache")
    debian = state.cached("roots") / f"debian-{rootfs.key()[: content.CACHE_KEY_LENGTH]}"
    unpacked = debian.with_name(f".{debian.name}.partial") / "usr" / "bin"
    compiled = state.logs / "build-kube.log"
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL, start_new_session=True) as killed:
        shell.wait_until(
            lambda: unpacked.exists() and compiled.exists(), timeout_seconds=300, what="the middle of both builds"
        )
        os.killpg(killed.pid, signal.SIGKILL)
    assert not debian.exists()
    shell.wait_until(lambda: str(tmp_path) not in _command_lines(), timeout_seconds=30, what="end of the builds")
    assert str(tmp_path) not in Path("/proc/self/mounts").read_text()

    subprocess.run(command, env=environment, check=True, timeout=800)
    assert (debian / "usr" / "bin" / "containerd").exists()
    output = shell.run([state.bin / gobuild.KUBE.name, "kubectl", "version", "--client"])
    assert "v1.37.1" in output


def _command_lines() -> str:
    lines = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            lines.append((folder / "cmdline").read_bytes().decode(errors="replace"))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return "\n".join(lines)
