"""The trainer and Keras' own `fit` with the same network, data, loss and optimizer, in one process, by turns.

`fit` has what its users get: one step in each call, and XLA as it is set here for both. Both loops run in threads of
their own, of which one waits while the other computes.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from bench.results import Row, Samples, Target
from bench.trainer.processes import reported

AT_LEAST_EQUAL: Final = Target(ratio=1.0, text="<= Keras' fit")
TIMEOUT_SECONDS: Final = 590
"""A part of a measurement takes at most ten minutes."""


@dataclass(frozen=True, slots=True)
class Contest:
    """What is measured."""

    network: str
    """Function of `networks`."""
    size: int
    """Pixels of images, or length of texts."""
    batch: int
    xla: bool = False
    precision: str | None = None
    """Mixed precision; float32 by default."""
    device: str = "CPU"
    rounds: int = 5
    seconds: float = 3.0
    """Of a turn."""
    trace: str | None = None
    """Folder for a trace of the profiler of one more turn of the trainer."""


def run(contest: Contest, title: str, more: Mapping[str, str] | None = None) -> Row:
    """Return the time of an example, compared with `fit`; `more` is added to the environment."""
    arguments = json.dumps(asdict(contest))
    pairs = reported("bench.trainer.contest", arguments, more=more or {}, timeout=TIMEOUT_SECONDS)
    samples = Samples()
    for ours, peer in pairs:
        samples.add({"ours": 1e3 / ours, "fit": 1e3 / peer, "speed": ours, "speed of fit": peer})
    speeds = [samples.median(name) or 0.0 for name in ("speed", "speed of fit")]
    spreads = f"{samples.spread('ours')} and {samples.spread('fit')} ms"
    note = f"{speeds[0]:,.1f} and {speeds[1]:,.1f} examples/s; {spreads}"
    ratio = samples.ratio("ours", "fit")
    return Row(title, samples.median("ours"), samples.median("fit"), "ms an example", AT_LEAST_EQUAL, note, ratio)


class Fit:
    """`fit` of Keras, which takes steps when it is its turn."""

    def __init__(self, program: Any, batch: int, *, xla: bool) -> None:
        self._until, self._steps = 1, 0
        self._go, self._done = threading.Event(), threading.Event()
        threading.Thread(target=self._run, args=(program, batch, xla), daemon=True).start()
        self._done.wait()

    def turn(self, steps: int) -> int:
        """Take `steps` steps."""
        self._until = self._steps + steps
        self._done.clear()
        self._go.set()
        self._done.wait()
        return steps

    def _run(self, program: Any, batch: int, xla: bool) -> None:
        import keras  # noqa: PLC0415  the process that starts this one needs none of it
        import tensorflow as tf  # noqa: PLC0415

        def after_step(_batch: int, logs: Any) -> None:
            self._steps += 1
            if self._steps >= self._until:
                float(logs["loss"])  # until then a GPU may compute
                self._done.set()
                self._go.wait()
                self._go.clear()

        def loss(labels: Any, predictions: Any) -> Any:
            return program.loss(tf.cast(labels, tf.int64), predictions)  # Keras makes them float32

        try:
            model = program.model()
            model.compile(program.optimizer(1.0), loss, jit_compile=xla)
            data = tf.data.Dataset.from_tensor_slices((program.features, program.labels))
            data = data.shuffle(len(program.labels)).batch(batch, drop_remainder=True).repeat()
            callbacks = [keras.callbacks.LambdaCallback(on_train_batch_end=after_step)]
            model.fit(data.prefetch(tf.data.AUTOTUNE), steps_per_epoch=10**9, verbose=0, callbacks=callbacks)
        finally:
            os._exit(1)  # a process that waits for the next turn must not wait forever


def main(contest: Contest) -> None:
    """Measure, and print the examples per second of each round, ours and `fit`'s."""
    from bench.trainer import networks  # noqa: PLC0415  they import TensorFlow, which `join` sets up
    from bench.trainer.member import warm  # noqa: PLC0415
    from bench.trainer.turns import TurnTaker  # noqa: PLC0415
    from tfdist.contract import ReplicaJob  # noqa: PLC0415
    from tfdist_trainer import runtime  # noqa: PLC0415
    from tfdist_trainer.context import Context  # noqa: PLC0415
    from tfdist_trainer.environment import GangMember  # noqa: PLC0415
    from tfdist_trainer.loop import train  # noqa: PLC0415
    from tfdist_trainer.preemption import PreemptionHandler  # noqa: PLC0415
    from tfdist_trainer.strategies.build import join  # noqa: PLC0415

    place: dict[str, Any] = {"strategy": "OneDevice", "role": "worker", "index": 0, "replicas": {"worker": 1}}
    member = GangMember(job=ReplicaJob(name="b", namespace="d", uid="1", **place), rank=0, size=1, addresses=())
    precision = {} if contest.precision is None else {"mixedPrecision": contest.precision}
    settings = runtime.read({"xla": "On" if contest.xla else "Off", **precision})
    gang = join(member, settings)
    check_device(contest.device)
    program = getattr(networks, contest.network)(contest.size, contest.batch)
    taker = TurnTaker(member)
    context = Context(gang, program, program.config, None, taker, PreemptionHandler(lambda *_: None), settings)
    taker.start(lambda: train(context))
    turns = {"ours": taker.turn, "fit": Fit(program, contest.batch, xla=contest.xla).turn}
    steps = {name: warm(gang, turn, contest.seconds) for name, turn in turns.items()}
    speeds = []
    for number in range(contest.rounds):
        results = {}
        for name in turns if number % 2 else reversed(turns):
            start = time.monotonic()
            duration = turns[name](steps[name])
            results[name] = duration * contest.batch / (time.monotonic() - start)
        speeds.append((results["ours"], results["fit"]))
    if contest.trace is not None:
        traced(Path(contest.trace), lambda: turns["ours"](steps["ours"]))
    print(json.dumps(speeds), flush=True)
    os._exit(0)


def check_device(kind: str) -> None:
    """Check that this process computes on a device of the kind."""
    import tensorflow as tf  # noqa: PLC0415  as above

    device = "GPU" if tf.config.list_logical_devices("GPU") else "CPU"
    if device != kind:
        raise RuntimeError(f"this process computes on the {device}, and was to be measured on a {kind}")


def traced(folder: Path, turn: Any) -> None:
    """Write a trace of a turn for TensorBoard's profiler."""
    import tensorflow as tf  # noqa: PLC0415  as above

    tf.profiler.experimental.start(str(folder))
    turn()
    tf.profiler.experimental.stop()


if __name__ == "__main__":
    main(Contest(**json.loads(sys.argv[1])))
