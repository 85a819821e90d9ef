"""Scripts, functions and batches as processes of this machine, by `LocalClient`."""

import pathlib
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from support.api import Json
from support.functions import train
from support.tiny_wheels import tiny_wheel

from tfdist import BatchHandle, LocalClient
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
def here(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalClient]:
    """A client of this machine, in a folder of its own; its jobs end with the test."""
    monkeypatch.chdir(tmp_path)
    client = LocalClient()
    yield client
    for job in client.list():
        client.cancel(job.name)


def script(text: str, name: str = "fashion", **spec: Any) -> Json:
    """Return a job with one worker that runs a script of the current folder."""
    path = pathlib.Path(f"{name}.py").resolve()
    path.write_text(text)
    given = {"worker": {"replicas": 1}, "runPolicy": {"backoffLimit": 0}, "training": {"script": str(path)}}
    return {"metadata": {"name": name, "labels": {"team": "vision"}}, "spec": given | spec}


def test_a_script_runs_on_this_machine_with_its_logs_and_result(here: LocalClient) -> None:
    handle = here.submit(script("import os\nprint('in', os.environ['TFDIST_JOB'] != '')"))

    assert handle.wait(timeout=TIMEOUT).phase is JobPhase.SUCCEEDED
    assert [(line.replica, line.text) for line in handle.logs()] == [("worker-0", "in True")]
    assert [line.text for line in here.logs("fashion", "worker", 0, follow=True)] == ["in True"]
    assert list(here.logs("fashion", "worker", 1)) == []
    assert [job.name for job in LocalClient().list(selector="team=vision")] == ["fashion"]
    assert LocalClient().list(selector="team=sound") == []


def test_a_script_that_fails_on_this_machine_is_a_failed_job(here: LocalClient) -> None:
    handle = here.submit(script("raise ValueError('no data')"))

    with pytest.raises(JobFailed, match=r"fashion failed: .*no data"):
        handle.wait(timeout=TIMEOUT)
    assert LocalClient().get("fashion").phase is JobPhase.FAILED


def test_packages_are_installed_once_before_the_script_and_not_those_of_the_image(
    here: LocalClient, tmp_path: pathlib.Path
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
    packages = here.folder / "greets" / "packages"
    assert {line.text for line in handle.logs(role="worker")} == {f"1.0 {packages}/greeting.py"}
    assert sorted(path.name for path in packages.iterdir() if path.suffix != ".dist-info") == [
        "__pycache__",
        "greeting.py",
    ]


def test_a_job_whose_packages_cannot_be_installed_fails_with_the_reason(
    here: LocalClient, tmp_path: pathlib.Path
) -> None:
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


def test_two_jobs_run_at_once_on_this_machine_until_they_are_stopped(here: LocalClient) -> None:
    endless = "import time\nprint('ready', flush=True)\nwhile True: time.sleep(1)"
    for name in ("first", "second"):
        here.submit(script(endless, name))
        assert next(iter(here.logs(name, follow=True))).text == "ready"

    with pytest.raises(AlreadyExists, match=r'^job "first" is running in '):
        LocalClient().submit(script(endless, "first"))
    LocalClient().attach("first").suspend()
    assert here.attach("first").wait_for([JobPhase.SUSPENDED], timeout=TIMEOUT).phase is JobPhase.SUSPENDED
    here.cancel("second")
    with pytest.raises(NotFound):
        here.get("second")
    here.cancel("first")
    assert here.list() == []


def test_a_job_whose_run_was_killed_has_failed(here: LocalClient) -> None:
    endless = "import os, time\nprint(os.getppid(), flush=True)\nwhile True: time.sleep(1)"
    handle = here.submit(script(endless))
    next(iter(here.logs("fashion", follow=True)))
    run = int((here.folder / "fashion/lock").read_text())
    subprocess.run(["kill", "-KILL", str(run)], check=True)

    with pytest.raises(JobFailed, match="fashion failed: the run ended without a result"):
        handle.wait(timeout=TIMEOUT)


def test_a_job_that_needs_a_cluster_is_invalid_on_this_machine(here: LocalClient) -> None:
    handle = here.submit(script("", env=[{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]))

    with pytest.raises(JobFailed, match=r"fashion invalid: .*A comes from the cluster"):
        handle.wait(timeout=TIMEOUT)


def test_what_makes_no_sense_on_this_machine_is_one_line(here: LocalClient) -> None:
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


def test_a_batch_runs_on_this_machine(here: LocalClient) -> None:
    batch = train.map([{"lr": 1}, {"lr": 2}], parallelism=1, client=here)

    assert isinstance(batch, BatchHandle)
    assert [result.phase for result in batch.results(timeout=TIMEOUT)] == [JobPhase.SUCCEEDED] * 2
