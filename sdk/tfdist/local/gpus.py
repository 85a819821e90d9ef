"""Assignment of this machine's GPUs to replicas.

As in a pod, a replica with a limit for `nvidia.com/gpu` gets that many devices exclusively; a replica without one
sees none. If the machine has too few for all replicas that run concurrently, all replicas compute on CPUs: two
processes on one GPU would compete for its memory, and NCCL rejects two ranks on one device.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

VARIABLE: Final = "CUDA_VISIBLE_DEVICES"
NONE: Final = "-1"


def assign_gpus(counts: Sequence[int], devices: Sequence[str]) -> list[str]:
    """Return the value of `CUDA_VISIBLE_DEVICES` of each replica.

    Args:
        counts: number of GPUs that each replica requests; the replicas run concurrently.
        devices: names of the available devices.
    """
    if sum(counts) > len(devices):
        return [NONE] * len(counts)
    result, used_count = [], 0
    for count in counts:
        result.append(",".join(devices[used_count : used_count + count]) or NONE)
        used_count += count
    return result


def gpu_note(counts: Sequence[int], devices: Sequence[str]) -> str | None:
    """Return a note for the user: too few GPUs, or GPUs that no replica requests; None if neither is the case."""
    if sum(counts) > len(devices):
        return f"GPUs: the job asks for {sum(counts)} and this machine has {len(devices)}; all replicas use CPUs"
    if devices and not any(counts):
        return f"GPUs: the job asks for none, so none of this machine's {len(devices)} is used"
    return None


def devices(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of this machine's GPUs, restricted to `CUDA_VISIBLE_DEVICES` of `environ` if it is set."""
    names = (path.name.removeprefix("nvidia") for path in Path("/dev").glob("nvidia*"))
    indices = tuple(sorted((name for name in names if name.isdecimal()), key=int))
    visible = environ.get(VARIABLE)
    if visible is None:
        return indices
    return tuple(name.strip() for name in visible.split(",") if name.strip() not in {"", NONE}) if indices else ()
