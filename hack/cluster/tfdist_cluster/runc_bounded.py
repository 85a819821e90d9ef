#!/usr/bin/python3
"""runc, asked for no capability that this machine's root does not hold.

`docker run --privileged`, which kind uses, requests every capability. Where the bounding set lacks one, as in some
virtual machines and containers, runc fails with "unable to apply caps". Docker calls this file instead of runc (it is
copied, so it imports nothing of this package); it trims the specification, then becomes runc.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

# In the order of their numbers in linux/capability.h.
CAPABILITIES = (  # noqa: SIM905  one string is easier to compare with the header than a column of strings
    "chown dac_override dac_read_search fowner fsetid kill setgid setuid setpcap linux_immutable net_bind_service "
    "net_broadcast net_admin net_raw ipc_lock ipc_owner sys_module sys_rawio sys_chroot sys_ptrace sys_pacct sys_admin "
    "sys_boot sys_nice sys_resource sys_time sys_tty_config mknod lease audit_write audit_control setfcap mac_override "
    "mac_admin syslog wake_alarm block_suspend audit_read perfmon bpf checkpoint_restore"
).split()


def bounding_set(status: str) -> frozenset[str]:
    """Return the names, as CAP_X, in the bounding set of a process given its /proc/PID/status."""
    mask = next(int(line.split()[1], 16) for line in status.splitlines() if line.startswith("CapBnd:"))
    return frozenset(f"CAP_{name.upper()}" for number, name in enumerate(CAPABILITIES) if mask >> number & 1)


def missing(status: str, last: int) -> list[str]:
    """Return what the bounding set lacks of the capabilities that the kernel knows, 0 to last."""
    held = bounding_set(status)
    known = [f"CAP_{name.upper()}" for name in CAPABILITIES[: last + 1]]
    return [name for name in known if name not in held]


def trimmed(process: dict[str, Any], held: frozenset[str]) -> dict[str, Any]:
    """Return the process of an OCI specification with only capabilities that are held."""
    capabilities = process.get("capabilities") or {}
    return {
        **process,
        "capabilities": {kind: [name for name in names or [] if name in held] for kind, names in capabilities.items()},
    }


def option(arguments: list[str], *names: str) -> str | None:
    """Return the value of a command line option, given as `--name value` or `--name=value`."""
    for position, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if name in names and equals:
            return value
        if argument in names and position + 1 < len(arguments):
            return arguments[position + 1]
    return None


def trim_file(path: Path, held: frozenset[str], *, whole: bool) -> None:
    """Rewrite a specification, or (whole) a file that holds only its process."""
    specification = json.loads(path.read_text())
    if whole:
        specification = trimmed(specification, held)
    elif specification.get("process"):
        specification["process"] = trimmed(specification["process"], held)
    path.write_text(json.dumps(specification))


def main(arguments: list[str]) -> None:
    """Trim the specification that a runc command will read, and run runc."""
    held = bounding_set(Path("/proc/self/status").read_text())
    process = option(arguments, "--process", "-p")
    if "create" in arguments or "run" in arguments:
        trim_file(Path(option(arguments, "--bundle", "-b") or ".") / "config.json", held, whole=False)
    elif "exec" in arguments and process:
        trim_file(Path(process), held, whole=True)
    os.execvp("runc", ["runc", *arguments])  # noqa: S606  docker's path contains runc


if __name__ == "__main__":
    main(sys.argv[1:])
