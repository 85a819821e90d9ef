"""What a conversion gives: the job, and notes on what is not as it was."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tfdist.validation import Problem

Json = dict[str, Any]

Remark = Callable[[str, str], None]
"""Takes the path of a field of the TFJob and what became of it."""


@dataclass(frozen=True, slots=True)
class Note:
    """What became of one field: its path in the TFJob (`spec.runPolicy.backoffLimit`), and a sentence."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


@dataclass(frozen=True, slots=True)
class Conversion:
    """A TFDistJob as JSON, and a note on every field of the TFJob that was dropped or changes its meaning."""

    manifest: Json
    notes: list[Note]


class CannotConvert(ValueError):  # noqa: N818  the name says what happened, and reads well where it is caught
    """A manifest that is no TFJob, or that its own operator or TensorFlow refuses; `problems` holds every mistake."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems = problems
