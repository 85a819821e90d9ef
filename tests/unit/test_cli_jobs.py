"""What `tfdist list`, `describe` and `events` print of fixed jobs, on terminals of 80 and 200 columns and elsewhere.

The texts are in `golden_cli/`; UPDATE_GOLDEN=1 writes them again, to be read as a change of the output.
"""

import io
import json
from datetime import timedelta

import pytest
import yaml
from rich.cells import cell_len
from support.stored_jobs import EVENTS, FAILED, JOBS, LATER, NEWER, RUNNING, UNSCHEDULABLE, event, stored
from support.transcripts import WIDTHS, check

from tfdist.cli.commands.show import event_table
from tfdist.cli.description import description
from tfdist.cli.errors import CommandError
from tfdist.cli.kinds import JOB, SWEEP, Kind, Reference
from tfdist.cli.main import main
from tfdist.cli.object_table import document_of, object_table, write_document, write_table
from tfdist.cli.tables import age, ages


def check_lines(name: str, lines: list[str]) -> None:
    """Compare lines with a golden file."""
    check(name, "".join(f"{line}\n" for line in lines))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("wide", [False, True], ids=["short", "wide"])
def test_a_list_has_the_columns_of_kubectl(width: int | None, wide: bool) -> None:
    check_lines(f"list-{'wide-' * wide}{width or 'pipe'}", object_table(JOB, JOBS, LATER, width=width, wide=wide))


@pytest.mark.parametrize("width", WIDTHS)
def test_a_list_of_all_namespaces_begins_with_the_namespace(width: int | None) -> None:
    check_lines(f"list-all-{width or 'pipe'}", object_table(JOB, JOBS, LATER, width=width, namespaces=True))


@pytest.mark.parametrize("width", [40, 60, 80, 120])
@pytest.mark.parametrize("wide", [False, True], ids=["short", "wide"])
def test_each_job_is_one_line_of_a_terminal(width: int, wide: bool) -> None:
    long = stored(
        "a" * 45, {"phase": "Running", "summary": {"metric": "precision=1\n2", "message": "é" * 90 + "漢" * 90}}
    )

    lines = object_table(JOB, [*JOBS, long], LATER, width=width, wide=wide, namespaces=True)

    assert len(lines) == len(JOBS) + 2
    assert max(map(cell_len, lines)) <= width


def test_without_a_terminal_nothing_is_cut_or_coloured() -> None:
    text = "\n".join(object_table(JOB, JOBS, LATER, width=None, wide=True))

    assert FAILED.message in text
    assert "…" not in text
    assert "\033" not in text


def test_the_phase_of_a_failed_job_is_red_on_a_terminal() -> None:
    lines = object_table(JOB, [RUNNING, FAILED], LATER, width=80, colour=True)

    assert "\033" not in lines[1]
    assert "\033[31mFailed " in lines[2]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_stream_decides_about_width_and_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    terminal, plain, pipe = Terminal(), Terminal(), io.StringIO()

    write_table(terminal, JOB, JOBS, None, LATER)
    monkeypatch.setenv("NO_COLOR", "1")
    write_table(plain, JOB, JOBS, None, LATER)
    write_table(pipe, JOB, JOBS, None, LATER)

    assert "\033[31m" in terminal.getvalue()
    assert max(map(cell_len, plain.getvalue().splitlines())) <= 60
    assert pipe.getvalue().splitlines() == object_table(JOB, JOBS, LATER, width=None)


def test_a_step_is_shown_where_the_number_of_steps_is_unknown() -> None:
    job = stored("endless", {"phase": "Running", "progress": {"step": 40}})

    assert "step 40" in object_table(JOB, [job], LATER, width=None)[1]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name)
def test_a_description_has_the_state_the_cause_and_the_remedy(job: object, width: int | None) -> None:
    job = next(each for each in JOBS if each is job)
    events = EVENTS if job is FAILED else []

    check_lines(f"describe-{job.name}-{width or 'pipe'}", description(JOB, job, events, LATER, width=width))


def test_the_last_failure_of_a_description_is_the_root_cause_and_not_its_consequence() -> None:
    text = "\n".join(description(JOB, FAILED, [], LATER, width=None))

    assert "  Replica:       worker-1 (attempt 1)" in text
    assert "lost worker-1" not in text


def test_a_job_that_cannot_start_has_a_remedy_without_a_failed_replica() -> None:
    text = "\n".join(description(JOB, UNSCHEDULABLE, [], LATER, width=None))

    assert "Remedy:          check the resources, nodeSelector" in text
    assert "Last Failure" not in text


def test_a_job_of_a_newer_version_keeps_its_phase_and_what_this_version_knows() -> None:
    text = "\n".join(description(JOB, NEWER, [], LATER, width=None))

    assert "Phase:           Hibernating" in text
    assert "Progress:        step 5" in text
    assert "AllReplicasRunning" in text
    assert "PowerSaving" not in text


def test_control_characters_of_messages_do_not_reach_the_terminal() -> None:
    status = {"phase": "Failed\033[2J", "summary": {"message": "a\033]0;x\007b\nc"}}
    job = stored("bad", status)

    for line in (*description(JOB, job, [], LATER, width=80), *object_table(JOB, [job], LATER, width=None, wide=True)):
        assert line.isprintable()


def test_a_description_names_the_number_of_events_that_it_leaves_out() -> None:
    events = [event("Running", f"number {number}", 60 - number) for number in range(25)]

    text = "\n".join(description(JOB, RUNNING, events, LATER, width=None))

    assert "Events: the last 20 of 25 events; all: tfdist events fashion" in text
    assert "number 4" not in text
    assert text.rstrip().endswith("number 24")


@pytest.mark.parametrize(
    ("result", "text"),
    [({"value": '{"loss":0.5}'}, '{"loss":0.5}'), ({"problem": "train returned a model"}, ": train returned a model")],
)
def test_a_description_has_what_the_function_of_a_job_returned(result: dict[str, str], text: str) -> None:
    job = stored("train", {"phase": "Succeeded", "functionResult": result})
    (line,) = [line for line in description(JOB, job, [], LATER, width=None) if "Result" in line]
    assert line.endswith(text)


def test_a_description_without_the_right_to_read_events_names_the_reason() -> None:
    assert (
        description(JOB, RUNNING, "not available: forbidden", LATER, width=80)[-1]
        == "Events:          not available: forbidden"
    )


def test_events_are_counted_as_by_kubectl_and_not_cut() -> None:
    check_lines("events", event_table(EVENTS, LATER))


def test_a_stored_job_is_printed_without_managed_fields_and_reads_as_the_same_values() -> None:
    for output, read in (("yaml", yaml.safe_load), ("json", json.loads)):
        stream = io.StringIO()
        write_document(stream, document_of(JOB, RUNNING), output)
        assert read(stream.getvalue()) == {
            **RUNNING.manifest,
            "metadata": {key: value for key, value in RUNNING.manifest["metadata"].items() if key != "managedFields"},
        }


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-5, "0s"), (119, "119s"), (120, "2m"), (321, "5m21s"), (601, "10m"), (10_799, "179m"), (11_100, "3h5m"),
     (30_000, "8h"), (180_000, "2d2h"), (800_000, "9d"), (70_000_000, "2y80d")],
)  # fmt: skip
def test_ages_are_those_of_kubectl(seconds: int, text: str) -> None:
    assert age(timedelta(seconds=seconds)) == text


def test_a_repeated_event_has_its_number_and_the_time_since_the_first() -> None:
    assert ages(3, LATER - timedelta(minutes=10), LATER - timedelta(minutes=5), LATER) == "5m (x3 over 10m)"


@pytest.mark.parametrize(
    ("given", "kind"),
    [("a", JOB), ("job/a", JOB), ("tfdistjob/a", JOB), ("tfdistjob.tfdist.dev/a", JOB),
     ("sweep/a", SWEEP), ("sweeps/a", SWEEP), ("tfdistsweep.tfdist.dev/a", SWEEP)],
)  # fmt: skip
def test_a_name_may_have_the_kind_that_o_name_prints(given: str, kind: Kind) -> None:
    assert Reference.parse(given) == (kind, "a")


def test_another_kind_is_an_error_with_the_kinds_that_there_are() -> None:
    with pytest.raises(CommandError, match="pod: unknown kind; write jobs or sweeps"):
        Reference.parse("pod/a")


@pytest.mark.parametrize(
    "command", ["list", "get", "describe", "events", "wait", "suspend", "resume", "restart", "scale", "delete"]
)
def test_each_command_has_help_with_its_exit_codes(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    assert "Exits " in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        ["list", "-o", "xml"],
        ["get", "a", "-o", "jsonpath"],
        ["get"],
        ["suspend"],
        ["scale", "a"],
        ["scale", "a", "--workers", "-1"],
    ],
)
def test_wrong_usage_is_reported_before_any_request(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert "Usage: tfdist" in capsys.readouterr().err
