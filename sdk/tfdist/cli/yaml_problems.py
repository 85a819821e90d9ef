"""What the YAML parser complains about, in words that say what to do."""

from typing import Any, Final

import yaml

from tfdist.cli.errors import DocumentError, Position

_ADVICE: Final = {
    "mapping values are not allowed in this context": (
        "a second ': ' in one line, or a line that is indented too far; put text that contains ': ' in quotes"
    ),
    "did not find expected key": "expected a key here: this line's indentation fits none of the lines above",
    "did not find expected '-' indicator": "expected '- ' here: this line's indentation fits none of the items above",
    "could not find expected ':'": "expected ': ' after the key",
    "did not find expected ',' or ']'": "expected ',' or ']': a list in brackets is not closed",
    "did not find expected ',' or '}'": "expected ',' or '}': a mapping in braces is not closed",
    "did not find expected node content": "expected a value here: a bracket or brace is not closed, or a ',' too many",
    "found unexpected end of stream": "the quote is never closed",
    "did not find expected <document start>": "expected '---' before another document; check the indentation",
    "block sequence entries are not allowed in this context": "a '- ' cannot stand here; begin a line with it",
    "found undefined alias": "the alias stands for nothing: no anchor '&' of this name comes before it",
    "found unknown escape character": "no such escape in double quotes; write '\\\\' for a backslash, or single quotes",
    "control characters are not allowed": "a control character; remove it, or write it as an escape in double quotes",
}
_CANNOT_START: Final = "cannot start any token"


def in_words(error: yaml.YAMLError, text: str, source: str) -> DocumentError:
    """Return the error that tells a person where `text` is no YAML and what to do."""
    if isinstance(error, yaml.MarkedYAMLError):
        position = _place(error, text)
        return DocumentError(source, _message(error, text, position.line), position)
    reason, offset = getattr(error, "reason", None), getattr(error, "position", None)
    before = text.encode()[:offset].decode(errors="ignore") if isinstance(offset, int) else ""
    return DocumentError(source, _advice(str(reason or error)), _behind(before))


def _place(error: yaml.MarkedYAMLError, text: str) -> Position:
    """Return where to look: what is never closed is found where it begins, not at the end of the file."""
    written = text.rstrip()
    for mark in (error.problem_mark, error.context_mark):
        if mark and mark.index < len(written):
            return Position(mark.line + 1, mark.column + 1)
    return _behind(written[:-1])


def _behind(text: str) -> Position:
    """Return the position of the character behind `text`."""
    return Position(text.count("\n") + 1, len(text) - text.rfind("\n"))


def _message(error: yaml.MarkedYAMLError, text: str, line: int) -> str:
    problem = error.problem or "malformed"
    if problem.endswith(_CANNOT_START):
        return _cannot_start(error.problem_mark, text)
    message = _advice(problem)
    began = error.context_mark
    if began and error.context and began.line + 1 < line:
        message += f"; the {error.context.rpartition(' a ')[2]} begins on line {began.line + 1}"
    return message


def _advice(problem: str) -> str:
    return next((advice for known, advice in _ADVICE.items() if known in problem), problem)


def _cannot_start(mark: Any, text: str) -> str:
    character = text[mark.index : mark.index + 1] if mark else ""
    if character == "\t":
        return "a tab; YAML is indented with spaces"
    return f"no value can begin with {character!r}; put it in quotes"
