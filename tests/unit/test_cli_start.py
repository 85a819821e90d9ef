"""How the command starts and ends: what it imports, what it says when something goes wrong, and its exit codes."""

import json
import os
import pathlib
import subprocess
import sys

import pytest
import yaml
from support.factories import manifest

from tfdist import __version__
from tfdist.cli import documents
from tfdist.cli.main import COMMANDS, main

HEAVY = {"tensorflow", "kubernetes", "kopf", "aiohttp", "numpy", "tfdist_operator", "tfdist_trainer"}
SAY_IMPORTS = """
import json, sys
from tfdist.cli.main import main
try:
    main(sys.argv[1:])
except SystemExit:
    pass
print("\\n" + json.dumps(sorted(sys.modules)))
"""


@pytest.fixture
def job(tmp_path: pathlib.Path) -> str:
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(manifest()))
    return str(path)


def imported(*arguments: str) -> set[str]:
    """Return what a run of the command imports."""
    ran = subprocess.run([sys.executable, "-c", SAY_IMPORTS, *arguments], check=True, capture_output=True, text=True)
    return set(json.loads(ran.stdout.splitlines()[-1]))


def test_help_needs_neither_models_nor_yaml() -> None:
    assert not imported("--help") & (HEAVY | {"pydantic", "yaml"})


@pytest.mark.parametrize("command", ["validate", "render", "convert"])
def test_offline_commands_import_nothing_heavy(command: str, job: str) -> None:
    found = imported(command, job)
    assert not found & HEAVY
    assert "yaml" in found


def test_each_command_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    for command in COMMANDS:
        with pytest.raises(SystemExit) as end:
            main([command, "--help"])
        assert end.value.code == 0
        assert "Exit code: 0" in capsys.readouterr().out


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert (end.value.code, capsys.readouterr().out) == (0, f"tfdist {__version__}\n")


@pytest.mark.parametrize("arguments", [["valdate", "a.yaml"], ["validate"], ["validate", "-o", "xml", "a.yaml"]])
def test_wrong_usage_ends_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    assert "usage: tfdist" in capsys.readouterr().err


def test_without_a_command_the_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "validate" in capsys.readouterr().out


def test_as_a_plugin_it_goes_by_that_name(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/somewhere/kubectl-tfdist"])
    main([])
    assert capsys.readouterr().out.startswith("usage: kubectl tfdist")


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
def test_a_bug_is_told_in_words_and_with_debug_in_full(
    options: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(path: str) -> list[str]:
        raise AssertionError(path)

    monkeypatch.setattr(documents, "files", broken)
    assert main([*options, "validate", "a.yaml"]) == 70
    err = capsys.readouterr().err
    assert "internal error (AssertionError: a.yaml). This is a bug: " in err
    assert ("Traceback" in err) == bool(options)


def test_without_pyyaml_the_extra_is_named() -> None:
    program = (
        "import sys; sys.modules['yaml'] = None; from tfdist.cli.main import main; sys.exit(main(['validate', 'a']))"
    )
    ran = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (2, "reading manifests needs PyYAML: pip install 'tfdist[cli]'\n")


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
