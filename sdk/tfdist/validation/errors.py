"""Errors of a manifest: one `FieldError` for each invalid field, as `field.Error` of Kubernetes."""

from dataclasses import dataclass

from tfdist.contract_model import printable


@dataclass(frozen=True, slots=True)
class FieldError:
    """An invalid field: its path (`spec.worker.env[0].name`), and a message with the fact and the remedy."""

    path: str
    message: str

    def __str__(self) -> str:
        return printable(f"{self.path}: {self.message}")


class ValidationFailed(ValueError):  # noqa: N818  named as the outcome, as in the condition `Invalid`
    """A manifest is not a valid TFDistJob or TFDistSweep; `problems` has every invalid field."""

    def __init__(self, problems: list[FieldError]) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems = problems
