"""The Docker engine: one that already runs, or one that is installed and started here.

A running engine is used as it is and never stopped. An engine started here keeps its data in the state folder, is
identified by its process, and is stopped by `down`. Its default runtime is the capability-trimming wrapper only if a
capability is missing; on other machines nothing differs from a plain dockerd.
"""

import os
import shutil
import signal
from pathlib import Path

from tfdist_cluster import console, lock, process, runc_bounded, shell
from tfdist_cluster.errors import ClusterError
from tfdist_cluster.paths import State

EXEC_ROOT = Path("/run/tfdist-docker")  # not Docker's default: only an engine started here writes to it
START_SECONDS = 60
APT_LOCK_SECONDS = 600  # another apt process may hold the lock


def answers() -> bool:
    """Return whether a Docker engine can be used."""
    return shell.succeeds(["docker", "version", "--format", "{{.Server.Version}}"], timeout_seconds=20)


def pid_file(state: State) -> Path:
    """Return where the identity of the engine started here is recorded."""
    return state.engine / "dockerd.pid"


def ours(state: State) -> process.Identity | None:
    """Return the engine that was started here, if it runs."""
    return process.read(pid_file(state))


def ensure(state: State) -> None:
    """Install and start a Docker engine if none responds.

    Raises:
        ClusterError: no engine responds, and none can be installed or started.
    """
    if answers():
        return
    with lock.exclusive(state.root / "engine.lock"):
        if answers():  # another invocation was faster
            return
        if ours(state) is not None and _answers_soon():
            return
        _require_root()
        process.stop(pid_file(state))  # it runs but does not respond; the new engine adopts its containers
        _install()
        if not answers():  # installing started it if systemd runs
            _start(state)


def restart(state: State) -> None:
    """Restart the engine that was started here, so that it detects which containers still run."""
    with console.step("restart the Docker engine: it lists containers as running that do not exist"):
        stop(state)
    ensure(state)


def _require_root() -> None:
    if os.geteuid() != 0:
        raise ClusterError(
            "no Docker engine answers, and only root can install or start one. Start Docker (for example "
            "`sudo systemctl start docker`), make sure that `docker version` works for this user, and try again"
        )


def _answers_soon() -> bool:
    try:
        shell.wait_until(answers, timeout_seconds=15, what="the Docker engine")
    except ClusterError:
        return False
    return True


def _install() -> None:
    """Install Debian's engine if the machine has none."""
    if _dockerd() is not None:
        return
    if shutil.which("apt-get") is None:
        raise ClusterError(
            "no Docker engine answers, there is no `dockerd` to start and no `apt-get` to install it with. "
            "Install Docker as your distribution describes and try again"
        )
    apt_install("docker.io")


def apt_install(*packages: str) -> None:
    """Print the names of Debian packages and install them."""
    noninteractive = {"DEBIAN_FRONTEND": "noninteractive"}
    with console.step(f"install {' '.join(packages)} with apt-get (system-wide)", expected_seconds=30):
        apt_get = ["apt-get", "-qq", "-o", f"DPkg::Lock::Timeout={APT_LOCK_SECONDS}"]
        shell.run([*apt_get, "update"], env=noninteractive)
        shell.run([*apt_get, "install", "-y", "--no-install-recommends", *packages], env=noninteractive)


def _dockerd() -> str | None:
    return shutil.which("dockerd", path=shell.environment()["PATH"])


def missing_capabilities() -> list[str]:
    """Return the capabilities that no process here can have."""
    last_capability = int(Path("/proc/sys/kernel/cap_last_cap").read_text())
    return runc_bounded.missing(Path("/proc/self/status").read_text(), last_capability)


def _start(state: State) -> None:
    dockerd = _dockerd()
    if dockerd is None:
        raise ClusterError("docker.io is installed but there is no `dockerd`; check `dpkg -L docker.io`")
    with console.step("start a Docker engine (dockerd) with its data in " + str(state.docker_data)):
        _forget_dead_containerd()
        log = state.logs / "dockerd.log"
        command = [
            dockerd, "--data-root", state.docker_data, "--exec-root", EXEC_ROOT,
            "--pidfile", EXEC_ROOT / "docker.pid", *_runtime(state),
        ]  # fmt: skip
        EXEC_ROOT.mkdir(parents=True, exist_ok=True)
        (EXEC_ROOT / "docker.pid").unlink(missing_ok=True)  # of a killed engine; its pid may have been reused
        engine = process.start(command, pid_file=pid_file(state), log=log)
        shell.wait_until(
            lambda: answers() or not engine.alive(), timeout_seconds=START_SECONDS, what=f"dockerd (see {log})"
        )
        if not engine.alive():
            tail = "\n".join(log.read_text(errors="replace").splitlines()[-5:])
            raise ClusterError(f"dockerd ended at once; {log} ends with:\n{tail}")


def _runtime(state: State) -> list[str]:
    """Return the options that make the trimming wrapper the default runtime, if it is needed."""
    capabilities = missing_capabilities()
    if not capabilities:
        return []
    console.info(f"    this machine lacks {', '.join(capabilities)}: containers get a runc that does not require it")
    wrapper = state.engine / "runc-bounded"
    shutil.copyfile(runc_bounded.__file__, wrapper)
    wrapper.chmod(0o755)
    return ["--add-runtime", f"bounded={wrapper}", "--default-runtime", "bounded"]


def _forget_dead_containerd() -> None:
    """Remove the pid file of a dead containerd: dockerd would treat any process with that pid as containerd."""
    pid_path = EXEC_ROOT / "containerd" / "containerd.pid"
    try:
        pid = int(pid_path.read_text())
        name = Path(f"/proc/{pid}/comm").read_text().strip()
    except (FileNotFoundError, ProcessLookupError, ValueError):
        pid, name = 0, ""
    # containerd dies with a killed dockerd, and stays a zombie if the init process does not reap it.
    if name != "containerd" or process.start_time(pid) is None:
        pid_path.unlink(missing_ok=True)


def was_started(state: State) -> bool:
    """Return whether an engine was ever started here: only a running engine can remove its containers."""
    return os.geteuid() == 0 and any(state.docker_data.iterdir())


def stop(state: State) -> bool:
    """Stop the engine that was started here, with its containerd and mounts; return whether it ran."""
    was_running = process.stop(pid_file(state), grace_seconds=30)
    _stop_orphaned_containerd()
    _unmount(str(EXEC_ROOT))
    _unmount(str(state.docker_data))
    return was_running


def _stop_orphaned_containerd() -> None:
    """Stop a containerd that survived a killed engine started here, identified by its configuration file."""
    config = str(EXEC_ROOT / "containerd")
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            arguments = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if Path(arguments[0]).name.startswith("containerd") and any(
            argument.startswith(config) for argument in arguments
        ):
            start_time = process.start_time(int(folder.name))
            if start_time is not None:
                _terminate(process.Identity(int(folder.name), start_time))


def _terminate(containerd: process.Identity) -> None:
    containerd.signal(signal.SIGTERM)
    try:
        shell.wait_until(lambda: not containerd.alive(), timeout_seconds=10, what="end of containerd")
    except ClusterError:
        containerd.signal(signal.SIGKILL)


def _unmount(below: str) -> None:
    """Unmount a folder, which dockerd mounts on itself, and everything below it, the last mounted first."""
    for line in reversed(Path("/proc/self/mounts").read_text().splitlines()):
        target = line.split()[1].encode().decode("unicode_escape")
        if target == below or target.startswith(below + "/"):
            shell.succeeds(["umount", "--lazy", target])
