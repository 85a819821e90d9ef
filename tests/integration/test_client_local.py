"""Scripts and functions as processes of this machine, by `Client(local=True)`."""

import hashlib
import pathlib
import random
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from support.api import Json
from support.functions import train, train_through_a_kill
from support.tiny_wheels import tiny_wheel

from tfdist import Client
from tfdist.api.status import JobPhase
from tfdist.client.errors import (
    AlreadyExists,
    JobFailed,
    NotFound,
    NotPossible,
)

pytestmark = pytest.mark.integration
TIMEOUT = 120


@pytest.fixture
def here(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """A client of this machine, in a folder of its own; its jobs end with the test."""
    monkeypatch.chdir(tmp_path)
    client = Client(local=True)
    yield client
    for job in client.list():
        client.jobs.delete(job.name)


def script(text: str, name: str = "fashion", **spec: Any) -> Json:
    """Return a job with one worker that runs a script of the current folder."""
    path = pathlib.Path(f"{name}.py").resolve()
    path.write_text(text)
    given = {"worker": {"replicas": 1}, "runPolicy": {"backoffLimit": 0}, "training": {"script": str(path)}}
    return {"metadata": {"name": name, "labels": {"team": "vision"}}, "spec": given | spec}


def test_a_script_runs_on_this_machine_with_its_logs_and_result(here: Client) -> None:
    handle = here.submit(script("import os\nprint('in', os.environ['TFDIST_JOB'] != '')"))

    assert handle.wait(timeout=TIMEOUT).phase is JobPhase.SUCCEEDED
    assert [(line.replica, line.text) for line in handle.logs()] == [("worker-0", "in True")]
    assert [line.text for line in here.attach("fashion").logs("worker", 0, follow=True)] == ["in True"]
    assert list(here.attach("fashion").logs("worker", 1)) == []
    assert [job.name for job in Client(local=True).list(selector="team=vision")] == ["fashion"]
    assert Client(local=True).list(selector="team=sound") == []


def test_a_folder_of_5_mb_runs_on_this_machine(here: Client) -> None:
    # given code with a file that cannot be compressed
    content = random.Random(0).randbytes(5_000_000)  # noqa: S311  not for security
    code = pathlib.Path("src")
    code.mkdir()
    (code / "weights.bin").write_bytes(content)
    (code / "train.py").write_text(
        "import hashlib, pathlib\nprint(hashlib.sha256(pathlib.Path('weights.bin').read_bytes()).hexdigest())"
    )
    job = {"metadata": {"name": "large"}, "spec": {"worker": {"replicas": 1}, "training": {"script": "train.py"}}}
    # when
    handle = here.submit(job, code=code)
    # then
    assert handle.wait(timeout=TIMEOUT).phase is JobPhase.SUCCEEDED
    assert handle.job.spec["training"]["source"]["archive"]["parts"] == 6
    logs = [line.text for line in handle.logs() if line.replica == "worker-0"]
    assert logs == [hashlib.sha256(content).hexdigest()]


def test_a_script_that_fails_on_this_machine_is_a_failed_job(here: Client) -> None:
    handle = here.submit(script("raise ValueError('no data')"))

    with pytest.raises(JobFailed, match=r"fashion failed: .*no data"):
        handle.wait(timeout=TIMEOUT)
    assert Client(local=True).get("fashion").phase is JobPhase.FAILED


def test_packages_are_installed_once_before_the_script_and_not_those_of_the_image(
    here: Client, tmp_path: pathlib.Path
) -> None:
    # given a script that imports a package of a wheel in its code
    code = tmp_path / "code"
    tiny_wheel(code / "wheels", "greeting", requires=["numpy"])
    (code / "train.py").write_text("import greeting\nprint(greeting.VERSION, greeting.__file__)")
    (code / "requirements.txt").write_text("--no-index\n--find-links wheels\ngreeting>=0.5\n")
    job = {"metadata": {"name": "greets"}, "spec": {"worker": {"replicas": 2}, "training": {"script": "train.py"}}}
    # when
    handle = here.submit(job, code=code, requirements=code / "requirements.txt")
    # then
    assert handle.wait(timeout=TIMEOUT).phase is JobPhase.SUCCEEDED
    packages = pathlib.Path(".tfdist/greets").resolve() / "packages"
    assert {line.text for line in handle.logs(role="worker")} == {f"1.0 {packages}/greeting.py"}
    assert sorted(path.name for path in packages.iterdir() if path.suffix != ".dist-info") == [
        "__pycache__",
        "greeting.py",
    ]


def test_a_job_whose_packages_cannot_be_installed_fails_with_the_reason(here: Client, tmp_path: pathlib.Path) -> None:
    # given a wheel that is replaced after it was locked
    code = tmp_path / "code"
    tiny_wheel(code / "wheels", "greeting")
    (code / "train.py").write_text("import greeting")
    text = f"--no-index\n--find-links wheels\ngreeting==1.0 --hash=sha256:{'0' * 64}\n"
    (code / "requirements.txt").write_text(text)
    job = {
        "metadata": {"name": "fails"},
        "spec": {"worker": {"replicas": 1}, "training": {"script": "train.py"}, "runPolicy": {"backoffLimit": 0}},
    }
    # when
    handle = here.submit(job, code=code, requirements=code / "requirements.txt")
    # then
    with pytest.raises(JobFailed, match=r"the file of greeting.* has another hash than tfdist-requirements\.txt says"):
        handle.wait(timeout=TIMEOUT)


def test_two_jobs_run_at_once_on_this_machine_until_they_are_stopped(here: Client) -> None:
    endless = "import time\nprint('ready', flush=True)\nwhile True: time.sleep(1)"
    for name in ("first", "second"):
        here.submit(script(endless, name))
        assert next(iter(here.attach(name).logs(follow=True))).text == "ready"

    with pytest.raises(AlreadyExists, match=r'^job "first" is running in '):
        Client(local=True).submit(script(endless, "first"))
    Client(local=True).attach("first").suspend()
    assert here.attach("first").wait_for([JobPhase.SUSPENDED], timeout=TIMEOUT).phase is JobPhase.SUSPENDED
    here.jobs.delete("second")
    with pytest.raises(NotFound):
        here.get("second")
    here.jobs.delete("first")
    assert here.list() == []


def test_a_job_whose_run_was_killed_has_failed(here: Client) -> None:
    endless = "import os, time\nprint(os.getppid(), flush=True)\nwhile True: time.sleep(1)"
    handle = here.submit(script(endless))
    next(iter(here.attach("fashion").logs(follow=True)))
    run = int(pathlib.Path(".tfdist/fashion/lock").read_text())
    subprocess.run(["kill", "-KILL", str(run)], check=True)

    with pytest.raises(JobFailed, match="fashion failed: the run ended without a result"):
        handle.wait(timeout=TIMEOUT)


def test_a_job_that_needs_a_cluster_is_invalid_on_this_machine(here: Client) -> None:
    handle = here.submit(script("", env=[{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]))

    with pytest.raises(JobFailed, match=r"fashion invalid: .*A comes from the cluster"):
        handle.wait(timeout=TIMEOUT)


def test_what_makes_no_sense_on_this_machine_is_one_line(here: Client) -> None:
    handle = here.submit(script(""))
    handle.wait(timeout=TIMEOUT)
    for call in (lambda: handle.scale(2), handle.restart, handle.events, lambda: here.in_namespace("x")):
        with pytest.raises(NotPossible, match=r"^[^\n]+$"):
            call()


@pytest.mark.usefixtures("here")
def test_a_function_runs_as_processes_of_this_machine() -> None:
    handle = train.local(lr=0.5)

    assert handle.wait(timeout=TIMEOUT).phase is JobPhase.SUCCEEDED
    assert [line.text for line in handle.tail(role="worker", index=0)] == ["trained with 0.5 None"]


@pytest.mark.usefixtures("here")
def test_a_function_on_this_machine_returns_its_value() -> None:
    assert train.local(lr=0.5, layers=[3]).result(timeout=TIMEOUT) == {"lr": 0.5, "layers": [3]}


@pytest.mark.usefixtures("here")
def test_a_function_returns_its_value_after_a_killed_worker(tmp_path: pathlib.Path) -> None:
    """Given two workers of which one is killed once; when both have run again, then the result is of the second run."""
    handle = train_through_a_kill.local(str(tmp_path / "calls"))

    assert handle.result(timeout=TIMEOUT) == "called 2 times"
    assert len(handle.job.status.failures or ()) == 1
