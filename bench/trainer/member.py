"""One process of a measurement: `TFDIST_JOB` and `TF_CONFIG` say which, the argument what to measure, as JSON.

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

from bench.trainer.plain import CHUNK, PlainLoop
from bench.trainer.turns import TurnTaker
from tfdist.contract import CheckpointSettings
from tfdist_trainer import environment, programs, report_server, runtime
from tfdist_trainer.context import Context
from tfdist_trainer.loop import train
from tfdist_trainer.notice import Notice
from tfdist_trainer.programs.config import batch_size
from tfdist_trainer.programs.image_classification_config import ImageClassificationConfig
from tfdist_trainer.strategies.build import join
from tfdist_trainer.strategies.gang import Gang

FULL_CHUNK_SECONDS: Final = 0.35
"""From when on a chunk of ours is of its final length."""

Turn = Callable[[int], int]
"""Takes at least so many steps, and returns how many it took."""


def main() -> None:
    """Measure, print and exit."""
    wanted = json.loads(sys.argv[1])
    member = environment.read_member(os.environ)
    settings = runtime.read(member.job.runtime)
    gang = join(member, settings)
    context = _context(gang, settings, None)
    turns: dict[str, Turn] = {"ours": _ours(context), "plain": _plain(context)}
    if wanted["reporting"]:
        turns["reporting"] = _reporting(gang, settings, wanted["folder"])
    steps = {name: _warm(gang, turn, wanted["seconds"]) for name, turn in turns.items()}
    batch = batch_size(context.config, gang.replicas) * gang.replicas
    found: dict[str, list[float]] = {name: [] for name in turns}
    for number in range(wanted["rounds"]):
        order = list(turns) if number % 2 else list(reversed(turns))
        for name in order:
            gang.share([0.0])
            started = time.monotonic()
            taken = turns[name](steps[name])
            found[name].append(taken * batch / (time.monotonic() - started))
    gang.share([0.0])
    if member.is_chief:
        print(json.dumps(found), flush=True)
    time.sleep(1)  # the other may still be ending the last exchange
    os._exit(0)


def _context(gang: Gang, settings: Any, checkpoint: CheckpointSettings | None) -> Context:
    training = gang.member.job.training
    assert training is not None  # noqa: S101  the parent process has set it
    choice = programs.choose(training.program, training.config)
    return Context(
        gang=gang,
        program=choice.create(),
        config=choice.config,
        checkpoint=checkpoint,
        reporter=TurnTaker(gang.member),
        notice=Notice(lambda _reason, _message: None),
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
    with np.load((config.data.train or ())[0]) as arrays:
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


def _reporting(gang: Gang, settings: Any, folder: str) -> Turn:
    """Return ours once more with all that it can tell: the report port, asked every second, and TensorBoard."""
    context = _context(gang, settings, CheckpointSettings(directory=folder, every_steps=10**9))
    port = int(os.environ["TFDIST_REPORT_PORT"])
    report_server.serve(context.reporter, port)

    def ask() -> None:
        while True:
            time.sleep(1)
            urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/progress").read()

    threading.Thread(target=ask, daemon=True).start()
    return _ours(context)


def _warm(gang: Gang, turn: Turn, seconds: float) -> int:
    """Return how many steps a turn of `seconds` has, after tracing, and until chunks have their final length."""
    wanted, speeds = 1, [0.0]
    while True:
        started = time.monotonic()
        taken = turn(wanted)
        took = gang.from_chief(time.monotonic() - started)
        speeds.append(taken / took)
        if took >= FULL_CHUNK_SECONDS and len(speeds) > 4:  # noqa: PLR2004  the first trace and warm up
            return max(1, round(speeds[-1] * seconds))
        wanted = min(8 * taken, max(1, round(speeds[-1] * FULL_CHUNK_SECONDS * 1.2)), 20 * CHUNK)


if __name__ == "__main__":
    main()
