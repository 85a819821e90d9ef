"""Errors of a manifest: one `FieldError` for each invalid field, as `field.Error` of Kubernetes."""

import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tfdist import messages
from tfdist.printable import printable

MAX_PROBLEMS: Final = 100
"""Errors or warnings of a manifest that are reported; of more, their number."""
_MAX_COUNTED: Final = 1000
"""Above it they are neither produced nor counted."""
_MAX_PATH: Final = 500
_MAX_MESSAGE: Final = 1000
_MAX_SUMMARY: Final = 3000
"""Characters; a condition has at most 4,096."""


@dataclass(frozen=True, slots=True)
class FieldError:
    """An invalid field: its path (`spec.worker.env[0].name`), and a message with the fact and the remedy."""

    path: str
    message: str

    def __str__(self) -> str:
        return printable(f"{self.path}: {self.message}")


class ValidationFailed(ValueError):  # noqa: N818  named as the outcome, as in the condition `Invalid`
    """A manifest is not a valid TFDistJob or TFDistSweep; `problems` has its invalid fields, as of `limited`."""

    def __init__(self, problems: Iterable[FieldError]) -> None:
        self.problems = limit_errors(problems)
        super().__init__("; ".join(map(str, self.problems)))


def limit_errors(problems: Iterable[FieldError], noun: str = "error") -> list[FieldError]:
    """Return the first `MAX_PROBLEMS` errors or warnings; of more, one more item has their number.

    Args:
        problems: errors or warnings, which are produced only as far as they are counted.
        noun: what they are, in the singular.
    """
    found = list(first(problems))
    more = len(found) - MAX_PROBLEMS
    if more > 0:
        are_counted = len(found) <= _MAX_COUNTED
        text = (
            f"and {messages.count(more, f'more {noun}')}" if are_counted else f"and more than {more - 1} other {noun}s"
        )
        found = [*found[:MAX_PROBLEMS], FieldError("spec", text)]
    return [FieldError(_clip(problem.path, _MAX_PATH), _clip(problem.message, _MAX_MESSAGE)) for problem in found]


def are_all(problems: Sequence[FieldError]) -> bool:
    """Return whether a result of `limited` has every error."""
    return len(problems) <= MAX_PROBLEMS


def are_counted(problems: Collection[FieldError]) -> bool:
    """Return whether the number of errors is exact; of more than that, none is reported."""
    return len(problems) <= _MAX_COUNTED


def summary(problems: Sequence[FieldError]) -> str:
    """Return the errors of a manifest as the text of a condition or event: the first ones, and how many more there are.

    What follows it there, such as what a running job does meanwhile, is not cut.
    """
    texts = list(map(str, problems))
    lengths = itertools.accumulate(len(text) + 2 for text in texts)
    shown = max(1, sum(length <= _MAX_SUMMARY for length in lengths))
    more = len(texts) - shown
    rest = [f"and {'' if are_all(problems) else 'at least '}{messages.count(more, 'more error')}"] if more else []
    return "; ".join([*texts[:shown], *rest])


def first(problems: Iterable[FieldError]) -> Iterator[FieldError]:
    """Yield as many errors as `limited` reads."""
    return itertools.islice(problems, _MAX_COUNTED + 1)


def _clip(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 3]}..."
