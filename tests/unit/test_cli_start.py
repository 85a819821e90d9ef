"""Start and end of the command: imports, help, usage errors, exit codes."""

import importlib
import json
import os
import pathlib
import subprocess
import sys

import pytest
import yaml
from support.factories import manifest
from support.list_server import ListServer
from support.stored_jobs import RUNNING
from support.stored_sweeps import RUNNING_SWEEP
from support.tfjobs import tfjob

from tfdist import __version__
from tfdist.cli import documents
from tfdist.cli.app import COMMANDS, SWEEP_COMMANDS
from tfdist.cli.command_line import Entry
from tfdist.cli.errors import MISSING_PACKAGES
from tfdist.cli.main import main

TOOLS = ("port-forward", "tensorboard", "shell", "stacks", "doctor", "report")
SWEEP = ("submit", "run", "attach", "wait", "list", "get", "describe", "results", "suspend", "resume", "delete")
NAMES = ("validate", "render", "convert", "run", "submit", "evaluate", "init", *TOOLS)
NEVER = {"tensorflow", "kopf", "aiohttp", "numpy", "tfdist_operator", "tfdist_trainer"}
HEAVY = NEVER | {"kubernetes"}
HELP_NEEDS_NONE = HEAVY | {"pydantic", "yaml", "rich"}
PRINT_IMPORTS = """
import json, sys
from tfdist.cli.main import main
try:
    main(sys.argv[1:])
except SystemExit:
    pass
print("\\n" + json.dumps(sorted(sys.modules)))
"""
PRINT_SOURCES = """
import json, linecache
import tfdist.api.v1, tfdist.api.status
print(json.dumps(sorted(linecache.cache)))
"""


@pytest.fixture
def job(tmp_path: pathlib.Path) -> str:
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(manifest()))
    return str(path)


def imported(*arguments: str, environment: dict[str, str] | None = None) -> set[str]:
    """Return what a run of the command imports."""
    ran = subprocess.run(
        [sys.executable, "-c", PRINT_IMPORTS, *arguments],
        check=True,
        capture_output=True,
        text=True,
        env=os.environ | (environment or {}),
    )
    return set(json.loads(ran.stdout.splitlines()[-1]))


@pytest.mark.parametrize("arguments", [["--help"], ["sweep", "--help"]])
def test_the_list_of_commands_imports_neither_models_nor_yaml_nor_rich_nor_a_command(arguments: list[str]) -> None:
    found = imported(*arguments)
    assert not found & HELP_NEEDS_NONE
    assert [name for name in found if name.startswith("tfdist.cli.commands")] == []


@pytest.mark.parametrize("command", ["list", "describe", "wait", "delete", "validate", "render"])
def test_the_help_of_a_command_imports_no_client_of_the_cluster_that_it_does_not_call(command: str) -> None:
    assert not imported(command, "--help") & HEAVY


@pytest.mark.parametrize("entries", [COMMANDS, SWEEP_COMMANDS], ids=["tfdist", "sweep"])
def test_the_list_of_commands_has_the_first_sentence_of_the_help_of_each(entries: dict[str, Entry]) -> None:
    for name, entry in entries.items():
        module, _, function = entry.target.partition(":")
        if module:
            command = getattr(importlib.import_module(f"tfdist.cli.commands.{module}"), function)
            assert (name, command.help.partition("\n\n")[0].replace("\n", " ")) == (name, entry.help)


def test_the_completion_of_commands_imports_no_more_than_help() -> None:
    typed = {"_TFDIST_COMPLETE": "complete_bash", "COMP_WORDS": "tfdist su", "COMP_CWORD": "1"}
    assert not imported(environment=typed) & HELP_NEEDS_NONE


def test_a_list_of_jobs_imports_models_of_their_status_only(tmp_path: pathlib.Path) -> None:
    # given a cluster with a job
    path = "/apis/tfdist.dev/v1/namespaces/team/tfdistjobs"
    with ListServer({path: [dict(RUNNING.manifest)]}).running() as server:
        server.write_kubeconfig(tmp_path / "kubeconfig", {"here": "team"})
        # when
        found = imported("list", environment={"KUBECONFIG": str(tmp_path / "kubeconfig")})
    # then
    assert len(server.asked) == 1
    assert {"kubernetes.client.rest", "tfdist.api.status"} <= found
    assert not found & (NEVER | {"tfdist.api.v1", "tfdist.validation", "rich.console"})
    generated = [name for name in found if name.startswith(("kubernetes.client.models.", "kubernetes.client.api."))]
    assert generated == [], "the package imports its thousand models and API classes when they are used"


def test_a_list_of_sweeps_imports_no_models_of_a_specification(tmp_path: pathlib.Path) -> None:
    # given a cluster with a sweep
    path = "/apis/tfdist.dev/v1alpha1/namespaces/team/tfdistsweeps"
    with ListServer({path: [dict(RUNNING_SWEEP.manifest)]}).running() as server:
        server.write_kubeconfig(tmp_path / "kubeconfig", {"here": "team"})
        # when
        found = imported("sweep", "list", environment={"KUBECONFIG": str(tmp_path / "kubeconfig")})
    # then
    assert len(server.asked) == 1
    assert "tfdist.api.sweep_status" in found
    assert not found & (NEVER | {"tfdist.api.v1", "tfdist.api.sweep", "tfdist.validation", "rich.console"})


def test_commands_of_jobs_import_nothing_of_sweeps(tmp_path: pathlib.Path) -> None:
    path = "/apis/tfdist.dev/v1/namespaces/team/tfdistjobs"
    with ListServer({path: [dict(RUNNING.manifest)]}).running() as server:
        server.write_kubeconfig(tmp_path / "kubeconfig", {"here": "team"})
        found = imported("list", environment={"KUBECONFIG": str(tmp_path / "kubeconfig")})
    assert not found & {
        "tfdist.client.sweep",
        "tfdist.client.sweep_handle",
        "tfdist.api.sweep_status",
        "tfdist.cli.commands.sweep",
    }


def test_the_models_are_imported_without_reading_their_sources() -> None:
    ran = subprocess.run([sys.executable, "-c", PRINT_SOURCES], check=True, capture_output=True, text=True)
    assert [name for name in json.loads(ran.stdout) if "tfdist" in name] == []


@pytest.mark.parametrize("command", ["validate", "render", "convert"])
def test_offline_commands_import_nothing_heavy(command: str, job: str) -> None:
    found = imported(command, job)
    assert not found & HEAVY
    assert "yaml" in found


def test_the_conversion_of_a_tfjob_imports_no_models_of_sweeps(tmp_path: pathlib.Path) -> None:
    (tmp_path / "tfjob.yaml").write_text(yaml.safe_dump(tfjob()))

    assert not imported("convert", str(tmp_path / "tfjob.yaml")) & {"tfdist.api.sweep", "tfdist.convert.katib"}


def test_each_command_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    for command in [[each] for each in NAMES] + [["sweep", each] for each in SWEEP]:
        assert main([*command, "--help"]) == 0
        assert "  Exits " in capsys.readouterr().out


def test_the_help_has_the_whole_first_sentence_of_each_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    main(["--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert "your rights and the namespace, and a job that has problems. report" in text


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"tfdist {__version__}\n"


@pytest.mark.parametrize("arguments", [["valdate", "a.yaml"], ["validate"], ["validate", "-o", "xml", "a.yaml"]])
def test_wrong_usage_ends_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert "Usage: tfdist" in capsys.readouterr().err


def test_without_a_command_the_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "validate" in "".join(capsys.readouterr())


def test_the_plugin_of_kubectl_has_its_own_name_in_help(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["/somewhere/kubectl-tfdist"])
    main([])
    assert "Usage: kubectl tfdist" in "".join(capsys.readouterr())


def test_a_closed_pipe_ends_quietly(tmp_path: pathlib.Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("---\n".join(["apiVersion: tfdist.dev/v1\nkind: x\n"] * 2000))
    command = [sys.executable, "-m", "tfdist.cli", "validate", "-q", str(bad)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.read(1)
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


def test_an_interrupt_ends_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(path: str) -> list[str]:
        raise KeyboardInterrupt(path)

    monkeypatch.setattr(documents, "files", interrupted)
    assert main(["validate", "a.yaml"]) == 130
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("options", [[], ["--debug"]])
def test_an_internal_error_is_one_line_and_a_traceback_with_debug(
    options: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(path: str) -> list[str]:
        raise AssertionError(path)

    monkeypatch.setattr(documents, "files", broken)
    assert main([*options, "validate", "a.yaml"]) == 70
    err = capsys.readouterr().err
    assert "internal error (AssertionError: a.yaml). This is a bug: " in err
    assert ("Traceback" in err) == bool(options)


@pytest.mark.parametrize("package", ["yaml", "typer"])
def test_without_its_packages_a_message_names_the_distribution(package: str) -> None:
    program = (
        "import sys; sys.modules[sys.argv[1]] = None\n"
        "from tfdist.cli.main import main; sys.exit(main(['validate', 'a']))"
    )
    ran = subprocess.run([sys.executable, "-c", program, package], check=False, capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (2, f"{MISSING_PACKAGES}\n")


@pytest.mark.parametrize("arguments", [["list"], ["logs", "a"], ["logs", "--help"]])
def test_without_the_packages_of_the_client_a_message_names_the_distribution(arguments: list[str]) -> None:
    program = (
        "import sys; sys.modules['kubernetes'] = None\nfrom tfdist.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    ran = subprocess.run([sys.executable, "-c", program, *arguments], check=False, capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (2, f"{MISSING_PACKAGES}\n")


def test_debug_is_accepted_before_and_after_the_command(job: str) -> None:
    assert main(["--debug", "validate", job]) == main(["validate", job, "--debug"]) == 0


@pytest.mark.parametrize(("no_colour", "red"), [("", True), ("1", False)])
def test_paths_are_red_on_a_terminal_that_wants_it(no_colour: str, *, red: bool, tmp_path: pathlib.Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("apiVersion: tfdist.dev/v1\nkind: x\n")
    ours, theirs = os.openpty()
    environment = os.environ | {"NO_COLOR": no_colour, "TERM": "xterm"}
    command = [sys.executable, "-m", "tfdist.cli", "validate", "-q", str(bad)]
    subprocess.run(command, check=False, stdout=theirs, env=environment)
    text = os.read(ours, 1000).decode()
    os.close(ours)
    os.close(theirs)
    assert ("\033[31mkind:\033[0m" in text) == red
