"""`tfdist init`: asks a few questions and writes the manifest of a job, with comments."""

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from tfdist.api.training import SCRIPT_SUFFIX
from tfdist.cli import documents, first_manifest
from tfdist.cli.command_line import command
from tfdist.cli.errors import CommandError, CommandExitCode
from tfdist.cli.findings import errors
from tfdist.cli.first_manifest import Answers
from tfdist.cli.output import message, one_line
from tfdist.client.new_job import job_name
from tfdist.messages import suggest
from tfdist.programs import MODELS

_NONE: Final = "none"
_DATA: Final = {"image_classification": "/data/train-*.tfrecord"}
_CSV: Final = "/data/train.csv"


class _AnswerError(Exception):
    """An answer that is not possible; the message says which are."""


@dataclass(frozen=True, slots=True)
class _Question:
    option: str
    text: str
    default: str
    read: Callable[[str], str] = str
    optional: bool = False
    """Whether the answer may be `none`."""


class _Interview:
    """Answers from the options; for an absent option, from the user or, with `yes`, the default."""

    def __init__(self, given: Mapping[str, str], *, yes: bool) -> None:
        self._given, self._yes = given, yes

    def answer(self, question: _Question) -> str:
        """Return the answer, or "" for `none`.

        Raises:
            CommandError: it is wrong, or there is neither an option nor a terminal.
        """
        text = self._given.get(question.option)
        if text is None and self._yes:
            text = question.default
        if text is None:
            return self._ask(question)
        try:
            return _read(question, text)
        except _AnswerError as error:
            raise CommandError(f"--{question.option} {text}: {error}") from None

    def _ask(self, question: _Question) -> str:
        if not sys.stdin.isatty():
            raise CommandError(f"--{question.option} is missing, and there is no terminal to ask: add it, or --yes")
        while True:
            try:
                text = input(f"{question.text} [{question.default}]: ").strip() or question.default
                return _read(question, text)
            except _AnswerError as error:
                message(f"{text}: {error}")
            except EOFError:
                raise CommandError("the answers have ended early; nothing was written") from None


@command
def init(
    *,
    program: Annotated[str | None, typer.Option(metavar="NAME", help="Program of the bundled trainer.")] = None,
    script: Annotated[str | None, typer.Option(metavar="FILE", help="Python script, instead of a program.")] = None,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="Name of the job.")] = None,
    data: Annotated[str | None, typer.Option(metavar="PATTERN", help="Training files of a program.")] = None,
    eval_data: Annotated[
        str | None, typer.Option(metavar="PATTERN", help="Files to evaluate a program on after training, or `none`.")
    ] = None,
    data_claim: Annotated[str | None, typer.Option(metavar="CLAIM", help="Claim with the data, or `none`.")] = None,
    workers: Annotated[str | None, typer.Option(metavar="N", help="Number of workers.")] = None,
    gpus: Annotated[str | None, typer.Option(metavar="N", help="GPUs of each worker.")] = None,
    checkpoint_claim: Annotated[
        str | None, typer.Option(metavar="CLAIM", help="Claim for checkpoints, or `none`.")
    ] = None,
    schema: Annotated[
        str | None, typer.Option(metavar="PATH", help="Schema for editors, as a URL or relative to the manifest.")
    ] = None,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="Manifest to write.")] = Path(
        "job.yaml"
    ),
    yes: Annotated[bool, typer.Option("-y", "--yes", help="Do not ask: use the defaults.")] = False,
) -> int:
    """Write a first manifest after a few questions.

    Each question is also an option. The manifest is valid, has comments, and never replaces a file.

    Exits 0, or 1 if the job would be invalid, 2 if the file exists, or an answer is missing or wrong.
    """
    options = {
        "program": program,
        "script": script,
        "name": name,
        "workers": workers,
        "gpus": gpus,
        "data": data,
        "data-claim": data_claim,
        "checkpoint-claim": checkpoint_claim,
        "eval-data": eval_data,
    }
    given = {key: value for key, value in options.items() if value is not None}
    if output.exists():
        raise CommandError(f"{output}: exists; choose another file by -o")
    answers = _answers(_Interview(given, yes=yes), given)
    try:
        "".join(map(str, astuple(answers))).encode()
    except UnicodeEncodeError:
        raise CommandError("an answer is not UTF-8; write it in ASCII") from None
    text = first_manifest.text(answers, one_line(str(output)), one_line(schema or ""))
    problems = [problem for document in documents.parse(text.encode(), str(output)) for problem in errors(document)]
    for problem in problems:
        problem.print(sys.stderr)
    if problems:
        return CommandExitCode.NEGATIVE
    _write(output, text)
    print(f"{output} created")
    message(f"next: edit it, then tfdist submit {output}{' --code .' if answers.needs_code else ''}")
    return CommandExitCode.OK


def _write(file: Path, text: str) -> None:
    """Write a new file, or none."""
    try:
        with file.open("x", encoding="utf-8") as stream:
            try:
                stream.write(text)
                stream.flush()
            except BaseException:
                file.unlink()
                raise
    except OSError as error:
        raise CommandError(f"{file}: cannot be written: {error.strerror}") from None


def _answers(interview: _Interview, answers: Mapping[str, str]) -> Answers:
    script, program = answers.get("script", ""), answers.get("program", "")
    if script and program:
        raise CommandError("--script and --program: a job runs one of them; remove the other")
    if not script:
        text = f"Program ({', '.join(MODELS)}), or the file of a Python script"
        program_name = interview.answer(_Question("program", text, next(iter(MODELS)), _program_or_script))
        script, program = (program_name, "") if _is_script(program_name) else ("", program_name)
    elif _is_file(script) and not Path(script).is_file():
        raise CommandError(f"--script {script}: no such file; the path of a script in the image is absolute")
    if script:
        _reject(answers, ("data", "eval-data"), "only a program has it; a script has arguments (training.args)")
    name = interview.answer(_Question("name", "Name of the job", job_name(Path(script or program).stem)))
    workers = interview.answer(_Question("workers", "Workers", "1", _number(1)))
    gpus = interview.answer(_Question("gpus", "GPUs of each worker", "0", _number(0)))
    data = "" if script else interview.answer(_Question("data", "Training files", _DATA.get(program, _CSV)))
    local = bool(script) or data.startswith("/")
    claim = _optional("data-claim", "Claim with the data", _NONE if script else "data")
    data_claim = interview.answer(claim) if local else ""
    checkpoints = interview.answer(_optional("checkpoint-claim", "Claim for checkpoints", "checkpoints"))
    evaluation = ""
    if program and checkpoints:
        evaluation = interview.answer(_optional("eval-data", "Files to evaluate on after training", _NONE))
    elif program:
        _reject(answers, ("eval-data",), "evaluation reads checkpoints; set --checkpoint-claim")
    return Answers(program, script, name, int(workers), int(gpus), data, data_claim, checkpoints, evaluation)


def _reject(answers: Mapping[str, str], options: Iterable[str], reason: str) -> None:
    for option in options:
        if answers.get(option, _NONE) != _NONE:
            raise CommandError(f"--{option}: {reason}")


def _optional(option: str, text: str, default: str) -> _Question:
    return _Question(option, f"{text}, or {_NONE}", default, optional=True)


def _read(question: _Question, text: str) -> str:
    return "" if question.optional and text == _NONE else question.read(text)


def _is_file(script: str) -> bool:
    return script.endswith(SCRIPT_SUFFIX) and not script.startswith("/")


def _is_script(answer: str) -> bool:
    return answer.endswith(SCRIPT_SUFFIX)


def _program_or_script(text: str) -> str:
    if _is_script(text):
        if _is_file(text) and not Path(text).is_file():
            raise _AnswerError("no such file")
        return text
    if text not in MODELS and ":" not in text:
        better = suggest(text, MODELS)
        hint = f'; did you mean "{better}"?' if better else ""
        raise _AnswerError(f"no such program; write one of {', '.join(MODELS)}, package.module:Class, or X.py{hint}")
    return text


def _number(minimum: int) -> Callable[[str], str]:
    def read(text: str) -> str:
        if not (text.isascii() and text.isdecimal()) or int(text) < minimum:
            raise _AnswerError(f"write a number of at least {minimum}")
        return text

    return read
