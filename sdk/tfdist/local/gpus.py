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


def assign_gpus(asked: Sequence[int], devices: Sequence[str]) -> list[str]:
    """Return the value of `CUDA_VISIBLE_DEVICES` of each replica.

    Args:
        asked: number of GPUs that each replica requests; the replicas run concurrently.
        devices: names of the available devices.
    """
    if sum(asked) > len(devices):
        return [NONE] * len(asked)
    result, taken = [], 0
    for count in asked:
        result.append(",".join(devices[taken : taken + count]) or NONE)
        taken += count
    return result


def gpu_note(asked: Sequence[int], devices: Sequence[str]) -> str | None:
    """Return a note for the user: too few GPUs, or GPUs that no replica requests; None if neither is the case."""
    if sum(asked) > len(devices):
        return f"GPUs: the job asks for {sum(asked)} and this machine has {len(devices)}; all replicas use CPUs"
    if devices and not any(asked):
        return f"GPUs: the job asks for none, so none of this machine's {len(devices)} is used"
    return None


def devices(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of this machine's GPUs, restricted to `CUDA_VISIBLE_DEVICES` of `environ` if it is set."""
    names = (path.name.removeprefix("nvidia") for path in Path("/dev").glob("nvidia*"))
    found = tuple(sorted((name for name in names if name.isdecimal()), key=int))
    chosen = environ.get(VARIABLE)
    if chosen is None:
        return found
    return tuple(name.strip() for name in chosen.split(",") if name.strip() not in {"", NONE}) if found else ()
