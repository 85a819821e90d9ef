"""One process of a measurement: `TFDIST_JOB` and `TF_CONFIG` identify it, the argument is what to measure, as JSON.

The chief prints one line of JSON: for each contestant the examples per second of each of its turns.
"""

import json
import os
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from typing import Any, Final

import keras
import numpy as np

from bench.trainer.plain import STEPS_PER_EXECUTION, PlainLoop
from bench.trainer.turns import TurnTaker
from tfdist.contract import CheckpointSettings
from tfdist.programs.image_classification import ImageClassificationConfig
from tfdist_trainer import environment, programs, report_server, runtime
from tfdist_trainer.context import Context
from tfdist_trainer.loop import train
from tfdist_trainer.preemption import PreemptionHandler
from tfdist_trainer.programs.config import batch_size
from tfdist_trainer.strategies.build import join
from tfdist_trainer.strategies.replica_group import ReplicaGroup

FULL_EXECUTION_SECONDS: Final = 0.35
"""From this duration on, an execution of the trainer has its final number of steps."""

Turn = Callable[[int], int]
"""Takes at least this number of steps, and returns how many it took."""


def main() -> None:
    """Measure, print and exit."""
    arguments = json.loads(sys.argv[1])
    member = environment.read_member(os.environ)
    settings = runtime.read(member.job.runtime)
    gang = join(member, settings)
    context = _context(gang, settings, None)
    turns: dict[str, Turn] = {"ours": _ours(context), "plain": _plain(context)}
    if arguments["reporting"]:
        turns["reporting"] = _reporting(gang, settings, arguments["folder"])
    steps = {name: warm(gang, turn, arguments["seconds"]) for name, turn in turns.items()}
    batch = batch_size(context.config, gang.replicas) * gang.replicas
    durations: dict[str, list[float]] = {name: [] for name in turns}
    for number in range(arguments["rounds"]):
        order = list(turns) if number % 2 else list(reversed(turns))
        for name in order:
            gang.all_reduce_sum([0.0])
            start = time.monotonic()
            duration = turns[name](steps[name])
            durations[name].append(duration * batch / (time.monotonic() - start))
    gang.all_reduce_sum([0.0])
    if member.is_chief:
        print(json.dumps(durations), flush=True)
    time.sleep(1)  # the other may still be ending the last exchange
    os._exit(0)


def _context(gang: ReplicaGroup, settings: Any, checkpoint: CheckpointSettings | None) -> Context:
    training = gang.member.job.training
    assert training is not None  # noqa: S101  the parent process has set it
    choice = programs.choose(training.program, training.config)
    return Context(
        gang=gang,
        program=choice.create(),
        config=choice.config,
        checkpoint=checkpoint,
        reporter=TurnTaker(gang.member),
        preemption=PreemptionHandler(lambda _reason, _message: None),
        settings=settings,
    )


def _ours(context: Context) -> Turn:
    taker = context.reporter
    assert isinstance(taker, TurnTaker)  # noqa: S101  it is what _context makes
    taker.start(lambda: train(context))
    return taker.turn


def _plain(context: Context) -> Turn:
    config = context.config
    assert isinstance(config, ImageClassificationConfig)  # noqa: S101  the parent process has chosen it
    files = config.data.train
    assert isinstance(files, tuple)  # noqa: S101  the parent process has named one file
    with np.load(files[0]) as arrays:
        images, labels = arrays["image"], arrays["label"]
    keras.utils.set_random_seed(1)
    with context.gang.strategy.scope():
        model = context.program.model()
        optimizer = keras.optimizers.Adam(config.learning_rate)
        optimizer.build(model.trainable_variables)
    size = batch_size(config, context.gang.replicas)
    loop = PlainLoop(context.gang.strategy, model, optimizer, images, labels, size)

    def turn(steps: int) -> int:
        loop.run(steps)
        return steps

    return turn


def _reporting(gang: ReplicaGroup, settings: Any, folder: str) -> Turn:
    """Return ours once more with all reporting: the report port, polled every second, and TensorBoard."""
    context = _context(gang, settings, CheckpointSettings(directory=folder, every_steps=10**9))
    port = int(os.environ["TFDIST_REPORT_PORT"])
    report_server.serve(context.reporter, port)

    def ask() -> None:
        while True:
            time.sleep(1)
            urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/progress").read()

    threading.Thread(target=ask, daemon=True).start()
    return _ours(context)


def warm(gang: ReplicaGroup, turn: Turn, seconds: float) -> int:
    """Return how many steps `seconds` have, after tracing, once executions have their final number of steps."""
    steps, speeds = 1, [0.0]
    while True:
        start = time.monotonic()
        duration = turn(steps)
        took = gang.broadcast_from_chief(time.monotonic() - start)
        speeds.append(duration / took)
        if took >= FULL_EXECUTION_SECONDS and len(speeds) > 4:  # noqa: PLR2004  the first trace and warm up
            return max(1, round(speeds[-1] * seconds))
        steps = min(8 * duration, max(1, round(speeds[-1] * FULL_EXECUTION_SECONDS * 1.2)), 20 * STEPS_PER_EXECUTION)


if __name__ == "__main__":
    main()
