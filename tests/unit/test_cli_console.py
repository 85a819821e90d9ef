"""Console of a local run: its output to a terminal and to a file."""

import errno
import io

import pytest

from tfdist.cli.console import RunConsole
from tfdist.cli.output import message, write_lines
from tfdist.contract_reports import ProgressReport

REPORT = ProgressReport.model_validate(
    {"role": "worker", "index": 0, "attempt": 0, "phase": "training", "step": 30, "totalSteps": 120}
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def written(stream: io.StringIO) -> str:
    console = RunConsole(stream, ["ps-0", "worker-0"], lambda: 0.0)
    console.progress("Running", None)
    console.log("ps-0", ["[bold] a " + "b" * 200])
    console.progress("Running", REPORT)
    console.message("done")
    console.close()
    return stream.getvalue()


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)


def test_a_file_gets_plain_lines_and_progress_only_every_ten_seconds() -> None:
    assert written(io.StringIO()) == f"Running\nps-0     | [bold] a {'b' * 200}\ndone\n"
    now = iter([0.0, 0.0, 60.0, 60.0])
    stream = io.StringIO()
    console = RunConsole(stream, [], lambda: next(now))
    console.progress("Starting", None)
    console.progress("Running", REPORT)
    assert stream.getvalue() == "Starting\nRunning  [=====               ] 25%  step 30 of 120\n"


def test_a_terminal_shows_progress_below_coloured_lines() -> None:
    output = written(Terminal())
    assert f"\x1b[36mps-0     | \x1b[0m[bold] a {'b' * 200}\n" in output
    assert "25%" in output
    assert "step 30 of 120" in output
    assert output.index("ps-0") < output.index("25%")


def test_a_terminal_without_colour_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[36m" not in written(Terminal())


def test_a_dumb_terminal_gets_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    assert "\x1b" not in written(Terminal())


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_a_closed_terminal_raises_no_error(stream: type[io.StringIO]) -> None:
    class Closed(stream):  # type: ignore[valid-type,misc]
        def write(self, text: str) -> int:  # noqa: ARG002  the signature of a stream
            raise OSError(errno.EIO, "Input/output error")

    written(Closed())


def test_a_closed_pipe_raises_broken_pipe_error() -> None:
    class Closed(io.StringIO):
        def write(self, text: str) -> int:  # noqa: ARG002  the signature of a stream
            raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        written(Closed())


def test_a_narrow_terminal_shows_phase_percentage_and_step_and_cuts_the_metrics(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # given many metrics and 80 columns
    monkeypatch.setenv("COLUMNS", "80")
    metrics = {f"val_metric_{number}": 0.5 for number in range(9)}
    stream = Terminal()
    console = RunConsole(stream, ["worker-0"], lambda: 0.0)
    # when
    changes = {"metrics": metrics, "examples_per_second": 7462.0, "remaining_seconds": 90.0}
    console.progress("Running", REPORT.model_copy(update=changes))
    # then
    output = stream.getvalue()
    for shown in ("Running", "25%", "step 30 of 120  1m30s left", "…"):
        assert shown in output
    assert "val_metric_8" not in output


EVIL = "\x1b]52;c;cm0gLXJmIH4K\x1b\\\x1b[2J\x1b[1;1H$ all jobs succeeded\x9b31m\x1b]0;title\x07\u202e\x1b[8A\rforged"


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_control_sequences_of_pods_are_visible_text(stream: type[io.StringIO]) -> None:
    # given a log line and a message that write to the clipboard, clear the screen and move the cursor
    made = stream()
    console = RunConsole(made, ["worker-0"], lambda: 0.0)
    # when
    console.log("worker-0", [EVIL])
    console.message(f"Failed: {EVIL}")
    # then
    text = made.getvalue().replace("\x1b[36m", "").replace("\x1b[0m", "")
    assert text.replace("\n", "").isprintable()
    assert "]52;c;cm0gLXJmIH4K" in text
    assert "[2J [1;1H$ all jobs succeeded 31m ]0;title" in text


def test_colours_of_a_line_stay_and_end_with_it() -> None:
    made = Terminal()
    console = RunConsole(made, ["ps-0"], lambda: 0.0)

    console.log("ps-0", ["\x1b[1;31merror", "\x1b[32mok\x1b[0m", "plain"])

    lines = [line.partition("| \x1b[0m")[2] for line in made.getvalue().splitlines()]
    assert lines == ["\x1b[1;31merror\x1b[0m", "\x1b[32mok\x1b[0m", "plain"]


def test_messages_and_tables_have_no_control_sequences(capsys: pytest.CaptureFixture[str]) -> None:
    message(f"NotFound: {EVIL}\nsecond line")
    write_lines([f"worker-0  {EVIL}"])

    output = capsys.readouterr()
    assert (output.out + output.err).replace("\n", "").isprintable()
    assert len(output.err.splitlines()) == 2
