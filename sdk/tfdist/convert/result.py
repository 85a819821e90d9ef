"""Result of a conversion: the job, and notes on differences."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tfdist.validation import FieldError

Json = dict[str, Any]

AddNote = Callable[[str, str], None]
"""Adds a note: path of a field of the TFJob, and how it changed."""


@dataclass(frozen=True, slots=True)
class Note:
    """Change of one field: its path in the TFJob (`spec.runPolicy.backoffLimit`), and the explanation."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


@dataclass(frozen=True, slots=True)
class Conversion:
    """A TFDistJob as JSON, and a note for every field of the TFJob that was dropped or changes its meaning."""

    manifest: Json
    notes: list[Note]


class CannotConvert(ValueError):  # noqa: N818  reads well where it is caught
    """The manifest is not a TFJob, or the training-operator or TensorFlow rejects it; `problems` has every reason."""

    def __init__(self, problems: list[FieldError]) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems = problems
