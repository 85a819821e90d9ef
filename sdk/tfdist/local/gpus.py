"""Which replica sees which GPUs.

As in pods, who asks for `nvidia.com/gpu` gets as many for itself, and who asks for none sees none. Where the machine
has too few for all replicas that run at one time, all compute on CPUs: two processes on one GPU would wait for each
other's memory, and NCCL refuses them.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

VARIABLE: Final = "CUDA_VISIBLE_DEVICES"
NONE: Final = "-1"


def shared_out(asked: Sequence[int], devices: Sequence[str]) -> list[str]:
    """Return the value of `CUDA_VISIBLE_DEVICES` for replicas that run at one time and ask for so many GPUs each."""
    if sum(asked) > len(devices):
        return [NONE] * len(asked)
    result, taken = [], 0
    for count in asked:
        result.append(",".join(devices[taken : taken + count]) or NONE)
        taken += count
    return result


def note(asked: Sequence[int], devices: Sequence[str]) -> str | None:
    """Return what people should know of it: that the GPUs do not suffice, or that nobody asks for them."""
    if sum(asked) > len(devices):
        return f"GPUs: the job asks for {sum(asked)} and this machine has {len(devices)}; all replicas use CPUs"
    if devices and not any(asked):
        return f"GPUs: the job asks for none, so none of this machine's {len(devices)} is used"
    return None


def devices(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return this machine's GPUs, or those of them that the user's own `CUDA_VISIBLE_DEVICES` names."""
    names = (path.name.removeprefix("nvidia") for path in Path("/dev").glob("nvidia*"))
    found = tuple(sorted((name for name in names if name.isdecimal()), key=int))
    chosen = environ.get(VARIABLE)
    if chosen is None:
        return found
    return tuple(name.strip() for name in chosen.split(",") if name.strip() not in {"", NONE}) if found else ()
