"""Completion in a shell: what it offers, from the cluster and the kubeconfig that the command line names."""

import logging
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any, Final

import pytest
import yaml
from support.list_server import Json, ListServer

from tfdist.cli import kubectl_completion
from tfdist.cli.main import main

TEAM: Final = "/apis/tfdist.dev/v1/namespaces/team/tfdistjobs"
SWEEPS: Final = "/apis/tfdist.dev/v1alpha1/namespaces/team/tfdistsweeps"
OTHER: Final = "/apis/tfdist.dev/v1/namespaces/other/tfdistjobs"


def named(*names: str) -> list[Json]:
    return [{"metadata": {"name": name}} for name in names]


@pytest.fixture
def server() -> Iterator[ListServer]:
    lists = {TEAM: named("fashion", "fast", "prices"), OTHER: named("books"), SWEEPS: named("fashion-lr", "prices")}
    with ListServer(lists).running() as made:
        yield made


@pytest.fixture(autouse=True)
def kubeconfig(server: ListServer, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[pathlib.Path]:
    path = tmp_path / "kubeconfig"
    server.write_kubeconfig(path, {"here": "team", "there": "other"})
    monkeypatch.setenv("KUBECONFIG", str(path))
    yield path
    logging.disable(logging.NOTSET)


@pytest.fixture
def complete(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Any:
    """Return a function that returns what bash offers for the last of the words; an error would print something."""

    def run(*words: str) -> list[str]:
        monkeypatch.setenv("_TFDIST_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", " ".join(["tfdist", *words]))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        assert main([]) == 0
        output = capfd.readouterr()
        assert output.err == ""
        return output.out.split()

    return run


@pytest.mark.parametrize(
    "command", ["get", "describe", "events", "wait", "logs", "attach", "evaluate", "scale", "doctor", "top"]
)
def test_a_job_is_completed_with_the_names_of_the_namespace(command: str, complete: Any) -> None:
    assert complete(command, "") == ["fashion", "fast", "prices"]
    assert complete(command, "fas") == ["fashion", "fast"]


def test_options_typed_before_choose_the_namespace_and_the_context(complete: Any) -> None:
    assert complete("get", "-n", "other", "") == ["books"]
    assert complete("get", "--context", "there", "") == ["books"]
    assert complete("get", "--context", "there", "--namespace", "team", "p") == ["prices"]


def test_of_several_jobs_those_on_the_command_line_are_left_out(complete: Any) -> None:
    assert complete("suspend", "fast", "") == ["fashion", "prices"]


def test_sweeps_are_completed_after_the_commands_of_their_group(complete: Any) -> None:
    assert complete("sweep", "res") == ["results", "resume"]
    assert complete("sweep", "results", "") == ["fashion-lr", "prices"]
    assert complete("sweep", "delete", "prices", "") == ["fashion-lr"]


def test_after_the_kind_its_names_are_completed(complete: Any) -> None:
    assert complete("get", "sweep/") == ["sweep/fashion-lr", "sweep/prices"]
    assert complete("delete", "sweep/prices", "sweep/") == ["sweep/fashion-lr"]
    assert complete("sweep", "get", "job/fas") == ["job/fashion", "job/fast"]
    assert complete("get", "pod/") == []


def test_after_the_job_its_replicas_are_completed_each_once(server: ListServer, complete: Any) -> None:
    # given two attempts of one replica, another one, and a pod that is none
    labels = [("worker", "0"), ("worker", "0"), ("evaluator", "0")]
    server.lists["/api/v1/namespaces/team/pods"] = [
        *({"metadata": {"labels": {"tfdist.dev/role": role, "tfdist.dev/index": index}}} for role, index in labels),
        {"metadata": {"labels": {"tfdist.dev/job": "fashion"}}},
    ]
    # then
    assert complete("logs", "fashion", "") == ["evaluator-0", "worker-0"]
    for command in ("logs", "shell", "stacks", "port-forward"):
        assert complete(command, "fashion", "w") == ["worker-0"]
    assert "labelSelector=tfdist.dev/job%3Dfashion" in server.asked[-1]


def test_namespaces_are_those_of_the_cluster_and_of_the_contexts(server: ListServer, complete: Any) -> None:
    assert complete("list", "-n", "") == ["other", "team"], "a user with one namespace may not list them"
    server.lists["/api/v1/namespaces"] = named("team", "kube-system")
    assert complete("list", "-n", "") == ["kube-system", "other", "team"]


def test_contexts_are_those_of_the_kubeconfig(kubeconfig: pathlib.Path, complete: Any) -> None:
    assert complete("list", "--context", "") == ["here", "there"]
    kubeconfig.rename(kubeconfig.with_name("own"))
    assert complete("list", "--kubeconfig", str(kubeconfig.with_name("own")), "--context", "t") == ["there"]


def test_phases_are_completed_whatever_their_case(complete: Any) -> None:
    assert complete("wait", "fashion", "--for", "Su") == ["Suspending", "Suspended", "Succeeded"]
    assert complete("wait", "fashion", "--for", "su") == ["suspending", "suspended", "succeeded"], (
        "a shell adds letters"
    )
    assert complete("sweep", "wait", "fashion", "--for", "Su") == ["Suspended", "Succeeded"]


@pytest.mark.parametrize("content", ["", "a: [", "contexts: 3", None])
def test_without_a_usable_kubeconfig_nothing_is_completed_or_printed(
    content: str | None, kubeconfig: pathlib.Path, complete: Any
) -> None:
    kubeconfig.unlink() if content is None else kubeconfig.write_text(content)

    assert complete("get", "") == complete("list", "-n", "") == complete("list", "--context", "") == []


def test_a_login_that_fails_prints_nothing_into_the_command_line(kubeconfig: pathlib.Path) -> None:
    # given
    config = yaml.safe_load(kubeconfig.read_text())
    config["users"][0]["user"] = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "false"}}
    kubeconfig.write_text(yaml.safe_dump(config))
    typed = {"_TFDIST_COMPLETE": "complete_bash", "COMP_WORDS": "tfdist get ", "COMP_CWORD": "2"}
    # when
    command = [sys.executable, "-m", "tfdist.cli"]
    ran = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ | typed)
    # then
    assert ran.stderr == ""


def test_a_cluster_that_does_not_answer_is_not_waited_for(server: ListServer, complete: Any) -> None:
    # given
    server.silent.add(TEAM)
    begin = time.monotonic()
    # then
    assert complete("get", "") == []
    assert time.monotonic() - begin < 30, "the client itself waits for a minute"


def test_zsh_and_fish_get_the_same_words(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", "tfdist get fas")
    monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
    printed = {}
    for shell in ("zsh", "fish"):
        monkeypatch.setenv("_TFDIST_COMPLETE", f"complete_{shell}")
        main([])
        printed[shell] = capsys.readouterr().out
    assert printed == {"zsh": '_arguments \'*: :(("fashion"\n"fast"))\'\n', "fish": "fashion\nfast\n"}


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        (["get", "fas"], ["fashion", "fast", ":4"]),
        (["get", ""], ["fashion", "fast", "prices", ":4"]),
        (["list", "-n", "other", "--context", ""], ["here", "there", ":4"]),
        (["validate", ""], [":0"]),
        (["eval"], ["evaluate", ":4"]),
    ],
)
def test_kubectl_gets_the_words_and_whether_files_are_completed_too(
    words: list[str], printed: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("_TFDIST_COMPLETE", "COMP_WORDS", "COMP_CWORD"):
        monkeypatch.setenv(variable, "")  # so that it is restored

    assert kubectl_completion.main(words) == 0

    assert capsys.readouterr().out.splitlines() == printed


def test_bash_completes_with_the_script_that_the_command_prints(tmp_path: pathlib.Path) -> None:
    # given
    program = tmp_path / "tfdist"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m tfdist.cli "$@"\n')
    program.chmod(0o755)
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    # when
    script = """
    eval "$(tfdist --show-completion bash)"
    COMP_WORDS=(tfdist get fas) COMP_CWORD=2
    _tfdist_completion tfdist
    printf '%s\\n' "${COMPREPLY[@]}"
    """
    ran = subprocess.run(["bash", "-c", script], check=True, capture_output=True, text=True, env=environment)
    # then
    assert (ran.stdout.split(), ran.stderr) == (["fashion", "fast"], "")
