"""How long a gang of two workers takes from its processes' start to its first step, and where the time goes."""

import itertools
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from bench.results import Row, Samples
from bench.trainer.processes import ProcessGroup

REPEATS: Final = 3
PARTS: Final = {
    "joining": "Python, configuration, import of TensorFlow",
    "joined": "connecting",
    "train-start": "data, model",
    "train": "tracing, first step",
}
"""Events of the chief's log, and what lies before each."""

_LINE: Final = re.compile(r"^(\d{4}-\S+Z) (\S+)", re.MULTILINE)


def run(config: dict[str, Any], folder: Path) -> list[Row]:
    """Return the median of some starts, with its parts in the remark."""
    samples = Samples()
    for number in range(REPEATS):
        began = datetime.now(UTC)
        with ProcessGroup(2, config | {"steps": 3}, folder / f"start-{number}", ["-m", "tfdist_trainer"]) as gang:
            gang.wait()
            samples.add(_parts(began, gang.output(0)))
    parts = ", ".join(f"{text} {samples.median(name):.2g} s" for name, text in PARTS.items())
    name = "train: start of a gang of 2 workers, until the first step"
    return [Row(name, samples.median("all"), None, "s", note=f"{samples.spread('all')} s; {parts}")]


def _parts(began: datetime, log: str) -> dict[str, float]:
    """Return the seconds that each part took, and all together."""
    at = {name: datetime.fromisoformat(time) for time, name in reversed(_LINE.findall(log))}
    times = [began, *(at[name] for name in PARTS)]
    parts = [(end - start).total_seconds() for start, end in itertools.pairwise(times)]
    return dict(zip(PARTS, parts, strict=True)) | {"all": sum(parts)}
