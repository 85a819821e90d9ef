"""`fit` of Keras 3, compared with `tf_keras` and with the trainer's own loop.

Each contestant is a gang of its own, which waits while others have their turn. Several loops in one process would
share its threads, and those that wait held up the others: one epoch in three took ten times as long.
"""

import contextlib
from pathlib import Path
from typing import Any, Final

from support.polling import wait_for

from bench.results import NO_TARGET, Row, Samples, Target
from bench.trainer.processes import ProcessGroup

PROCESSES: Final = 2
ROUNDS: Final = 7
WARM_EPOCHS: Final = 3
"""From then on, an execution of `fit` has its final number of steps."""
FORMS: Final = ("arrays", "data set")
SPEED: Final = "speed "
"""Begins a line with a speed, in the output of `fit_member`."""
CONTESTANTS: Final = tuple(f"{name} of {form}" for form in FORMS for name in ("own", "fit", "tf_keras"))
MODELS: Final = {"cnn": 20_000, "resnet": 4_000}
"""Further models of the program, of which the two loops are compared, each with one process and two: their examples in
an epoch, which is a turn."""
THREE_TIMES: Final = Target(ratio=1 / 3, text="<= a third")
TWENTY_PERCENT: Final = Target(ratio=1.2, text="<= 20 % more")


def run(config: dict[str, Any], folder: Path) -> list[Row]:
    """Return the time of an example by `fit`, on arrays and on a data set of single examples."""
    samples = Samples()
    with contextlib.ExitStack() as stack:
        gangs = {}
        for name in CONTESTANTS:
            gangs[name] = stack.enter_context(Contestant(name, config, folder / name))
            gangs[name].speed(WARM_EPOCHS)
        for number in range(ROUNDS):
            order = CONTESTANTS if number % 2 else reversed(CONTESTANTS)
            samples.add({name: 1e6 / gangs[name].speed(1) for name in order})
    title = f"fit: mlp, batch 128, {PROCESSES} processes"
    rows = []
    for form in FORMS:
        fit, own, peer = (f"{name} of {form}" for name in ("fit", "own", "tf_keras"))
        rows.append(_row(f"{title}, {form}: Keras 3 compared with tf_keras", samples, fit, peer, THREE_TIMES))
        against = f"{title}, {form}: compared with the trainer's own loop on the same"
        rows.append(_row(against, samples, fit, own, TWENTY_PERCENT))
    return rows


def loops(model: str, title: str, processes: int, config: dict[str, Any], folder: Path) -> Row:
    """Return the time of an example of a model of `MODELS` by `fit`, compared with the trainer's own loop."""
    samples = Samples()
    with contextlib.ExitStack() as stack:
        gangs = {}
        for name in ("own", "fit"):
            gangs[name] = stack.enter_context(
                Contestant(f"{name} of arrays", config, folder / name, processes, MODELS[model])
            )
            gangs[name].speed(WARM_EPOCHS)
        for number in range(ROUNDS):
            order = ("own", "fit") if number % 2 else ("fit", "own")
            samples.add({name: 1e6 / gangs[name].speed(1) for name in order})
    label = f"fit: {title}, {processes} process{'es' if processes > 1 else ''}, arrays"
    return _row(f"{label}: compared with the trainer's own loop on the same", samples, "fit", "own", NO_TARGET)


def _row(title: str, samples: Samples, ours: str, peer: str, target: Target) -> Row:
    note = f"{samples.spread(ours)} and {samples.spread(peer)} us"
    return Row(
        title, samples.median(ours), samples.median(peer), "us an example", target, note, samples.ratio(ours, peer)
    )


class Contestant(contextlib.AbstractContextManager["Contestant"]):
    """A gang that trains for as many epochs as its turns have."""

    def __init__(
        self, name: str, config: dict[str, Any], folder: Path, processes: int = PROCESSES, examples: int | None = None
    ) -> None:
        self._epochs = 0
        self._allowed = folder.with_suffix(".allowed")
        folder.parent.mkdir(parents=True, exist_ok=True)
        self._allow(WARM_EPOCHS)
        command = ["-m", "bench.trainer.fit_member", name, str(self._allowed), str(examples or "")]
        self._gang = ProcessGroup(processes, config, folder, command)

    def __exit__(self, *error: object) -> None:
        self._gang.__exit__(*error)

    def speed(self, epochs: int) -> float:
        """Let the gang train for this number of epochs, and return the examples per second of the last one."""
        self._epochs += epochs
        self._allow(self._epochs)
        return wait_for("the end of an epoch", self._speeds)[-1]

    def _speeds(self) -> list[float]:
        """Return the speed of each epoch, once all that are allowed are over."""
        self._gang.check()
        lines = self._gang.output(0).split("\n")[:-1]
        speeds = [float(line.removeprefix(SPEED)) for line in lines if line.startswith(SPEED)]
        return speeds if len(speeds) >= self._epochs else []

    def _allow(self, epochs: int) -> None:
        new = self._allowed.with_suffix(".new")
        new.write_text(str(epochs))
        new.rename(self._allowed)
