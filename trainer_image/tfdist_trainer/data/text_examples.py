"""Text files that are one example each, in the folder of their class, plain or gzip. Needs only NumPy.

The layout of `keras.utils.text_dataset_from_directory`: `pos/1.txt` is a text of the class `pos`.
"""

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Final

from tfdist_trainer.atomic import reject_storage_error
from tfdist_trainer.data.columns import Array, BadRecords, Converted, DataColumn, check_converted
from tfdist_trainer.data.csvs import convert
from tfdist_trainer.data.text_files import UNREADABLE, first_undecoded, line_ends, not_utf8, open_text
from tfdist_trainer.errors import ColumnAbsentError

TEXT: Final = "text"
LABEL: Final = "label"
_MAX_CHARACTERS: Final = 1 << 24
"""Length above which a text is rejected as a file of many examples; it limits the memory for one file."""


def read(name: str, columns: Sequence[DataColumn], bad: BadRecords) -> dict[str, Array]:
    """Return the given columns of the only example in the file `name`: `text`, its content, and `label`, its folder.

    Raises:
        DataMalformedError: the file is of another format; or it is a bad example and `bad` does not skip.
        ColumnAbsentError: a column is neither of the two.
    """
    for column in columns:
        if column.name not in {TEXT, LABEL} or column.shape:
            of_shape = f" of the shape {list(column.shape)}" if column.shape else ""
            raise ColumnAbsentError(
                f"{name}: has no column {column.name!r}{of_shape}; "
                f"a text file has {TEXT!r}, its content, and {LABEL!r}, the name of its folder"
            )
    text = _text(name, bad)
    if text is None:
        return {column.name: column.empty() for column in columns}
    values = {TEXT: text, LABEL: PurePosixPath(name).parent.name}
    converted = {column.name: _convert_column(values[column.name], column) for column in columns}
    return check_converted(columns, converted, lambda _row: name, bad)


def _text(name: str, bad: BadRecords) -> str | None:
    """Return the text in the file `name`, or None if it is bad and skipped."""
    try:
        with open_text(name, "text", "") as file:
            text = file.read(_MAX_CHARACTERS + 1)
    except UNREADABLE as error:
        reject_storage_error(error, name)
        bad.report(name, f"is not readable: {error}")
        return None
    if problem := _problem(text):
        line, message = problem
        bad.report(f"{name}: line {line}", message)
        return None
    return text


def _problem(text: str) -> tuple[int, str] | None:
    """Return the number of the line with a problem and the description of the problem; None if `text` is valid."""
    if not text or text.isspace():
        return 1, "the file has no text"
    if len(text) > _MAX_CHARACTERS:
        lines = "a text file is one example: for an example on each line use the format tsv or jsonl"
        return 1, f"the file has more than {_MAX_CHARACTERS:,} characters; {lines}"
    if match := first_undecoded(text):
        return 1 + line_ends(text[: match.start()]), not_utf8(match)
    if (position := text.find("\0")) >= 0:
        return 1 + line_ends(text[:position]), "has the byte 0x00: the file is damaged, or is not text in UTF-8"
    return None


def _convert_column(value: str, column: DataColumn) -> Converted:
    values, problems = convert([value], column)
    hint = "; list the names of the folders in training.config.classes" if column.name == LABEL else ""
    return Converted(values, {row: f"{problem}{hint}" for row, problem in problems.items()})
