"""`tfdist init`: the manifest that it writes, its questions, and when it writes none."""

import builtins
import pathlib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Self

import pytest
import yaml

from tfdist.cli.main import main

GOLDEN: Final = pathlib.Path(__file__).parent / "golden_cli"
ALL: Final = ("--program", "tabular", "--name", "a", "--workers", "2", "--gpus", "0", "--data", "/d/x.csv",
              "--data-claim", "d", "--checkpoint-claim", "c", "--eval-data", "/d/y.csv")  # fmt: skip
FILE: Final = pathlib.Path("job.yaml")


@pytest.fixture(autouse=True)
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pathlib.Path("train.py").write_text("print()")


@pytest.fixture
def type_in(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Return a function that makes a terminal where the user types the lines; it returns the questions."""

    def prepare(*lines: str | type[BaseException]) -> list[str]:
        asked: list[str] = []
        remaining: Iterator[Any] = iter(lines)

        def answer(question: str) -> str:
            asked.append(question)
            line = next(remaining)
            if isinstance(line, str):
                return line
            raise line

        monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
        monkeypatch.setattr(builtins, "input", answer)
        return asked

    return prepare


def written() -> dict[str, Any]:
    """Return the manifest, which `tfdist validate` accepts."""
    assert main(["validate", "-q", str(FILE)]) == 0
    manifest: dict[str, Any] = yaml.safe_load(FILE.read_text())
    return manifest


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("init-default", ["--yes"]),
        ("init-program", [*ALL, "--schema", "../crds/tfdistjob.schema.json"]),
        ("init-script", ["--yes", "--script", "train.py", "--workers", "4", "--gpus", "2", "--data-claim", "images"]),
    ],
)
def test_the_manifest_has_comments_and_is_valid(
    name: str, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", *arguments]) == 0

    output = capsys.readouterr()
    code = " --code ." if name == "init-script" else ""
    assert output == ("job.yaml created\n", f"next: edit it, then tfdist submit job.yaml{code}\n")
    assert FILE.read_text() == (GOLDEN / f"{name}.txt").read_text()
    written()


@pytest.mark.parametrize("program", ["image_classification", "tabular", "text_classification", "own.models:Resnet"])
@pytest.mark.parametrize("gpus", ["0", "8"])
@pytest.mark.parametrize("claim", ["none", "checkpoints"])
def test_each_combination_is_valid(program: str, gpus: str, claim: str) -> None:
    assert main(["init", "--yes", "--program", program, "--gpus", gpus, "--checkpoint-claim", claim]) == 0

    spec = written()["spec"]
    assert spec["training"]["program"] == program
    assert ("checkpoint" in spec) == (claim != "none")


def test_on_a_terminal_it_asks_and_an_empty_line_is_the_default(type_in: Callable[..., list[str]]) -> None:
    # given
    asked = type_in("text_classification", "", "3", "1", "/texts/a.csv", "corpus", "none")
    # when
    assert main(["init"]) == 0
    # then
    assert [question.split(" [")[0] for question in asked] == [
        "Program (image_classification, tabular, text_classification), or the file of a Python script",
        "Name of the job",
        "Workers",
        "GPUs of each worker",
        "Training files",
        "Claim with the data, or none",
        "Claim for checkpoints, or none",
    ]
    manifest = written()
    spec = manifest["spec"]
    assert manifest["metadata"]["name"] == "text-classification"
    assert (spec["worker"], spec["resources"]) == ({"replicas": 3}, {"limits": {"nvidia.com/gpu": 1}})
    assert spec["training"]["config"]["data"] == {"train": "/texts/a.csv"}
    assert spec["volumeMounts"] == [{"name": "data", "mountPath": "/texts", "readOnly": True}]
    assert "checkpoint" not in spec


def test_a_script_is_a_possible_answer_and_has_fewer_questions(type_in: Callable[..., list[str]]) -> None:
    asked = type_in("train.py", *[""] * 5)

    assert main(["init"]) == 0

    assert len(asked) == 6
    assert written()["spec"]["training"]["source"] == {"configMap": {"name": "train-code"}}


def test_a_wrong_answer_is_asked_again_with_the_reason(
    type_in: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    type_in("tabula", "absent.py", "tabular", "", "0", "many", "none", "2", *[""] * 6)

    assert main(["init"]) == 0

    assert capsys.readouterr().err.splitlines()[:-1] == [
        "tabula: no such program; write one of image_classification, tabular, text_classification, "
        'package.module:Class, or X.py; did you mean "tabular"?',
        "absent.py: no such file",
        *(f"{wrong}: write a number of at least 1" for wrong in ("0", "many", "none")),
    ]
    assert written()["spec"]["worker"]["replicas"] == 2


def test_an_option_is_not_asked(type_in: Callable[..., list[str]]) -> None:
    assert type_in() == []
    assert main(["init", *ALL]) == 0
    assert written()["spec"]["evaluation"] == {"mode": "AfterTraining"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--program is missing, and there is no terminal to ask: add it, or --yes"),
        ([*ALL[:-2]], "--eval-data is missing, and there is no terminal to ask: add it, or --yes"),
        (["--yes", "--script", "train.py", "--program", "tabular"], "--script and --program: a job runs one of them"),
        (["--yes", "--script", "absent.py"], "--script absent.py: no such file"),
        (["--yes", "--script", "train.py", "--data", "/d"], "--data: only a program has it"),
        (["--yes", "--program", "tabula"], "--program tabula: no such program"),
        (["--yes", "--workers", "0"], "--workers 0: write a number of at least 1"),
        (["--yes", "--gpus", "1.5"], "--gpus 1.5: write a number of at least 0"),
        (["--yes", "--checkpoint-claim", "none", "--eval-data", "/d"], "--eval-data: evaluation reads checkpoints"),
        (["--yes", "--data", "/data/\udcff"], "an answer is not UTF-8"),
        (["--yes", "-o", "absent/job.yaml"], "absent/job.yaml: cannot be written: No such file or directory"),
        (["--yes", "-o", "train.py"], "train.py: exists; choose another file by -o"),
    ],
)
def test_what_it_cannot_use_is_one_line_and_nothing_is_written(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", *arguments]) == 2

    output = capsys.readouterr()
    (line,) = output.err.splitlines()
    assert line.startswith(message)
    assert output.out == ""
    assert [path.name for path in pathlib.Path().iterdir()] == ["train.py"]
    assert pathlib.Path("train.py").read_text() == "print()"


def test_an_invalid_job_is_not_written_and_its_errors_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "--yes", "--name", "My Job"]) == 1

    assert capsys.readouterr().err.startswith("job.yaml:5: metadata.name: ")
    assert not FILE.exists()


@pytest.mark.parametrize("text", ["/data/a: b #c", "/data/'x\"", "/data/{a}, b", "/data/ä\nb", "gs://bucket/*", "123"])
def test_an_answer_is_in_the_manifest_as_it_was_given(text: str) -> None:
    assert main(["init", "--yes", "--data", text, "--data-claim", "none"]) == 0

    assert written()["spec"]["training"]["config"]["data"]["train"] == text


@pytest.mark.parametrize("typed", [[KeyboardInterrupt], ["tabular", "", KeyboardInterrupt]])
def test_ctrl_c_writes_nothing(
    typed: Sequence[Any], type_in: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    type_in(*typed)

    assert main(["init"]) == 130

    assert capsys.readouterr() == ("", "")
    assert not FILE.exists()


def test_an_end_of_the_input_writes_nothing(
    type_in: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    type_in("tabular", EOFError)

    assert main(["init"]) == 2

    assert capsys.readouterr().err == "the answers have ended early; nothing was written\n"
    assert not FILE.exists()


def test_an_interrupt_within_writing_leaves_no_part_of_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    original = pathlib.Path.open

    class Stream:
        def __init__(self, stream: Any) -> None:
            self._stream = stream

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            self._stream.close()

        def write(self, text: str) -> None:
            self._stream.write(text[:10])
            raise KeyboardInterrupt

    def opened(self: pathlib.Path, *given: Any, **named: Any) -> Any:
        stream = original(self, *given, **named)
        return Stream(stream) if self == FILE else stream

    monkeypatch.setattr(pathlib.Path, "open", opened)
    assert main(["init", "--yes"]) == 130
    assert not FILE.exists()
