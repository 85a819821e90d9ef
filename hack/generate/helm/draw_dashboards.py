"""Draws docs/images/dashboard-*.svg: `make dashboards-pictures`, some five minutes.

Two replicas of the controller, an API server with fake nodes and a Prometheus run while a dozen jobs train, end, fail
and are restarted. The reports of the programs are made up; everything else in the pictures is measured.
"""

import argparse
import itertools
import math
import pathlib
import random
import re
import tempfile
import time
from collections.abc import Iterator
from typing import Final

from support import controller as controllers
from support.api import Api
from support.control_plane import control_plane
from support.monitored_installation import Installation, monitored_installation
from support.prometheus import Prometheus
from support.trainers import Reporter, report

import dashboards
from pictures import Line, Picture, drawn, legend_of
from tfdist.contract_reports import ProgressReport

OUTPUT: Final = pathlib.Path(__file__).resolve().parents[3] / "docs/images"
NAMESPACE: Final = "vision"
STEP_SECONDS: Final = 2.0
EVERY_SECONDS: Final = 15.0
"""A new job as often."""
NAMES: Final = ("fashion", "reviews", "penguins", "resnet", "segment", "embed", "forecast", "ranking")
ENDS: Final = (0, 0, 137, 0, 0, 66, 0, 137, 0, 0, 0, 1)
"""What becomes of the jobs: 0 is success, 66 a user error, and the others are started once more."""


def main() -> None:
    """Run the story and draw it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300)
    options = parser.parse_args()
    with control_plane(fake_nodes=2) as kubeconfig, tempfile.TemporaryDirectory() as folder:
        api = Api(kubeconfig)
        controllers.install(api)
        api.do("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        with monitored_installation(api, NAMESPACE, pathlib.Path(folder), every_seconds=STEP_SECONDS) as installation:
            started = time.time()
            run_story(installation, started, options.seconds)
            draw(installation.prometheus, started, time.time())


def run_story(installation: Installation, started: float, seconds: float) -> None:
    """Submit jobs, let their programs speak, and end them, for so long."""
    installation.submit("rejected", template={"spec": {"priorityClassName": "missing"}})
    lives = [_life(installation, number) for number in range(int(seconds // EVERY_SECONDS) - 1)]
    begun: list[Iterator[bool]] = []
    while (now := time.time() - started) < seconds:
        while lives and now >= len(begun) * EVERY_SECONDS:
            begun.append(lives.pop(0))
        for life in begun:
            next(life, None)
        time.sleep(0.25)


def _life(installation: Installation, number: int) -> Iterator[bool]:
    """Do the next thing that is due in the life of one job, each time it is asked."""
    chance = random.Random(number)  # noqa: S311  the same pictures' story each time
    name, end = f"{NAMES[number % len(NAMES)]}-{number + 1}", ENDS[number % len(ENDS)]
    installation.submit(name)
    pace, lasts = chance.uniform(20, 90), chance.uniform(35, 80)
    for attempt, code in enumerate((end,) if end in {0, 66} else (end, 0)):
        suffix = f"-r{attempt}" if attempt else ""
        while (installation.status(name).get("phase"), installation.status(name).get("attempt", 0)) != (
            "Running",
            attempt,
        ):
            yield False
        born = time.time()
        life = lasts if code == 0 else lasts / 2
        installation.trainers.serve(f"{name}-worker-0{suffix}", _program(chance, born, pace, lasts))
        while time.time() < born + life:
            yield False
        for worker in range(2 if code == 0 else 1):
            installation.api.end_container(installation.namespace, f"{name}-worker-{worker}{suffix}", code)


def _program(chance: random.Random, born: float, steps_per_second: float, lasts: float) -> Reporter:
    wave, size = chance.uniform(0, math.tau), chance.choice((32, 64, 128))

    def current() -> ProgressReport:
        age = time.time() - born
        pace = steps_per_second * (1 + 0.08 * math.sin(age / 5 + wave))
        total = round(steps_per_second * lasts)
        return report(min(total, int(age * steps_per_second)), total, pace * size, 1000 / pace)

    return current


def draw(prometheus: Prometheus, start: float, end: float) -> None:
    """Write a picture of each dashboard."""
    OUTPUT.mkdir(exist_ok=True)
    for name, panels in (("jobs", dashboards.JOBS), ("controller", dashboards.CONTROLLER)):
        pictures = [_picture(prometheus, panel, start, end) for panel in panels]
        title = str(dashboards.DASHBOARDS[name]["title"])
        text = drawn(title, pictures, end - start, STEP_SECONDS)
        (OUTPUT / f"dashboard-{name}.svg").write_text(text, encoding="utf-8")


def _picture(prometheus: Prometheus, panel: dashboards.Panel, start: float, end: float) -> Picture:
    lines = itertools.chain.from_iterable(
        _lines(prometheus, query, legend, start, end) for query, legend in panel.queries
    )
    return Picture(panel.title, panel.unit, panel.kind, panel.note, tuple(lines))


def _lines(prometheus: Prometheus, query: str, legend: str, start: float, end: float) -> Iterator[Line]:
    expression = re.sub(r"\$\w+", ".*", query)
    result = prometheus.between(expression, start, end, STEP_SECONDS)
    for series in sorted(result, key=lambda one: legend_of(legend, one.labels)):
        yield Line(legend_of(legend, series.labels), tuple((at - start, value) for at, value in series.points))


if __name__ == "__main__":
    main()
