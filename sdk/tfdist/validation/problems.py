"""What is wrong with a manifest, as people read it: the path of the field, what was given, what to write instead."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake: the path of the field (`spec.worker.env[0].name`), and what is wrong and what to do about it."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


class InvalidJob(ValueError):  # noqa: N818  the name says what the user has, as in the condition `Invalid`
    """A manifest that is no valid TFDistJob; `problems` holds every mistake."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems = problems
