"""`fit` of Keras 3 by two processes, compared with `tf_keras` and with the trainer's own loop.

Each contestant is a gang of its own, which a signal stops while others have their turn. Several loops in one process
would share its threads, and those that wait held up the others: one epoch in three took ten times as long.
"""

import contextlib
import os
import signal
from pathlib import Path
from typing import Any, Final

from support.polling import wait_for

from bench.results import Row, Samples, Target
from bench.trainer.processes import ProcessGroup

PROCESSES: Final = 2
ROUNDS: Final = 7
WARM_EPOCHS: Final = 3
"""From then on, an execution of `fit` has its final number of steps."""
FORMS: Final = ("arrays", "data set")
CONTESTANTS: Final = ("own", *(f"{name} of {form}" for form in FORMS for name in ("fit", "tf_keras")))
THREE_TIMES: Final = Target(ratio=1 / 3, text="<= a third")
TWENTY_PERCENT: Final = Target(ratio=1.2, text="<= 20 % more")


def run(config: dict[str, Any], folder: Path) -> list[Row]:
    """Return the time of an example by `fit`, on arrays and on a data set of single examples."""
    samples = Samples()
    with contextlib.ExitStack() as started:
        gangs = {}
        for name in CONTESTANTS:
            command = ["-m", "bench.trainer.fit_member", name]
            gangs[name] = started.enter_context(ProcessGroup(PROCESSES, config, folder / name, command))
            _speed(gangs[name], WARM_EPOCHS)
            _signal(gangs[name], signal.SIGSTOP)
        for number in range(ROUNDS):
            speeds = {name: _turn(gangs[name]) for name in (CONTESTANTS if number % 2 else reversed(CONTESTANTS))}
            samples.add({name: 1e6 / speed for name, speed in speeds.items()})
    title = f"fit: mlp, batch 128, {PROCESSES} processes"
    rows = []
    for form in FORMS:
        fit, peer = f"fit of {form}", f"tf_keras of {form}"
        rows.append(_row(f"{title}, {form}: Keras 3 compared with tf_keras", samples, fit, peer, THREE_TIMES))
        own = f"{title}, {form}: compared with the trainer's own loop"
        rows.append(_row(own, samples, fit, "own", TWENTY_PERCENT))
    return rows


def _row(title: str, samples: Samples, ours: str, peer: str, target: Target) -> Row:
    note = f"{samples.spread(ours)} and {samples.spread(peer)} us"
    return Row(
        title, samples.median(ours), samples.median(peer), "us an example", target, note, samples.ratio(ours, peer)
    )


def _turn(gang: ProcessGroup) -> float:
    """Let a gang run for two epochs and return the speed of the second: the first includes the time that it waited."""
    _signal(gang, signal.SIGCONT)
    speed = _speed(gang, len(gang.output(0).splitlines()) + 2)
    _signal(gang, signal.SIGSTOP)
    return speed


def _speed(gang: ProcessGroup, epoch: int) -> float:
    """Return the examples per second of an epoch, from 1, once it is over."""

    def line() -> str | None:
        gang.check()
        lines = gang.output(0).split("\n")[:-1]
        return lines[epoch - 1] if len(lines) >= epoch else None

    return float(str(wait_for("the end of an epoch", line)))


def _signal(gang: ProcessGroup, number: signal.Signals) -> None:
    for pid in gang.pids:
        os.kill(pid, number)
