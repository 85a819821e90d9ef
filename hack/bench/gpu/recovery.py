"""How long training on a GPU pauses after SIGKILL, and whether the memory of the killed process is free again.

A worker trains under a launcher, which starts the next process from its fork server, on the same GPU.
"""

import os
import re
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from support.launchers import Launchers, program_of, training_job, trains
from support.ports import free_ports

from bench.recovery import COMMAND
from bench.results import Row, Samples, Target

THREE_SECONDS: Final = Target(value=3.0, text="<= 3 s")
NOTHING: Final = Target(value=50.0, text="<= 50 MiB")
"""The driver's own use of memory changes a little."""
_MIB: Final = 1024


def run(folder: Path, device: str, kills: int) -> list[Row]:
    """Return the seconds from a kill to the next step, and the memory in use that kills have added."""
    folder.mkdir()
    environ: Mapping[str, str] = {"CUDA_VISIBLE_DEVICES": "-1"} if device == "CPU" else {}
    job = training_job(folder, epochs=10**6) | {"strategy": "OneDevice"}
    port, report_port = free_ports(2)
    settings = {"backoffLimit": 10 * kills, "firstDelaySeconds": 0.0}
    launchers = Launchers(folder, COMMAND, settings, job, [port], [report_port], lambda _: dict(environ))
    samples = Samples()
    launchers.start(0)
    try:
        trains(launchers, 0, beyond=100)
        memory_before = used(launchers, device)
        for number in range(kills):
            begun = time.monotonic()
            os.kill(program_of(launchers, 0), signal.SIGKILL)
            trains(launchers, number + 1)
            samples.add({"seconds": time.monotonic() - begun})
            trains(launchers, number + 1, beyond=100)
        memory_added = used(launchers, device) - memory_before
    finally:
        launchers.stop()
    title = f"kill -9 of a worker on a {device}, in place"
    seconds, spread = samples.median("seconds"), samples.spread("seconds")
    return [
        Row(f"{title}: until the next step", seconds, None, "s", THREE_SECONDS, f"{spread} s of {kills}"),
        Row(
            f"{title}: memory in use that {kills} kills have added",
            memory_added,
            None,
            "MiB",
            NOTHING,
            f"{memory_before:.0f} before",
        ),
    ]


def used(launchers: Launchers, device: str) -> float:
    """Return the memory in use in MiB: of all GPUs, or of the training process on a CPU."""
    if device == "CPU":
        status = Path(f"/proc/{program_of(launchers, 0)}/smaps_rollup").read_text(encoding="utf-8")
        (kib,) = re.findall(r"^Pss:\s+(\d+) kB$", status, re.MULTILINE)
        return int(kib) / _MIB
    command = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    return sum(map(float, subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()))
