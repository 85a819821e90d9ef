"""Exit codes and messages of the commands that control jobs, with a client that has the given jobs."""

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, NoReturn, cast

import pytest
from support.stored_jobs import stored

from tfdist.api.status import JobPhase
from tfdist.cli.commands import attach, control, show
from tfdist.cli.connection import to_copy
from tfdist.cli.errors import CommandError
from tfdist.cli.kinds import Reference
from tfdist.client.api_server import ApiServer
from tfdist.client.client import Client
from tfdist.client.cluster import Cluster
from tfdist.client.errors import Forbidden, NoCluster, NotFound, NotPossible
from tfdist.client.job import Job
from tfdist.client.job_handle import JOBS, JobHandle
from tfdist.client.resources import Resources


def phase(name: str, value: str) -> Job:
    return stored(name, {"phase": value, "summary": {"message": "why"}})


class Jobs(Resources[Job, JobHandle]):
    """Jobs without a cluster: each is in the given phases, one after the other, once it is watched."""

    def __init__(self, **phases: list[str]) -> None:
        super().__init__(Cluster(cast("ApiServer", SimpleNamespace(request=denied)), "team"), "team", JOBS)
        self.phases = phases
        self.changes: dict[str, Any] = {}

    def get(self, name: str) -> Job:
        if name not in self.phases:
            raise NotFound(f'job "{name}" not found in namespace "team"')
        return phase(name, self.phases[name][0])

    def patch(self, name: str, change: dict[str, Any]) -> Job:
        self.changes[name] = change
        return self.get(name)

    def watch(self, name: str, **_: float | None) -> Iterator[Job]:
        for value in self.phases[name]:
            yield phase(name, value)

    def similar(self, name: str) -> str | None:
        raise Forbidden(name)


def denied(_: str, path: str, **__: Any) -> NoReturn:
    raise Forbidden(f"{path.rpartition('/')[2]} is forbidden")


class JobsClient(Client):
    """The client of these jobs."""

    def __init__(self, jobs: Jobs, own: str = "team") -> None:
        self.namespace = "team"
        api = SimpleNamespace(connection=SimpleNamespace(namespace=own))
        self._backend, self._jobs = Cluster(cast("ApiServer", api), "team"), jobs

    @property
    def jobs(self) -> Jobs:
        return self._jobs


def change(jobs: Jobs, names: list[str], action: str, *, wait: bool = False, timeout: str | None = None) -> int:
    actions = {"suspend": control.SUSPEND, "resume": control.RESUME, "restart": control.RESTART}
    references = list(map(Reference.parse, names))
    return control.change(JobsClient(jobs), references, actions[action], wait=wait, timeout=timeout)


@pytest.mark.parametrize(
    ("action", "phases", "code"),
    [
        ("suspend", ["Running", "Suspending", "Suspended"], 0),
        ("suspend", ["Running", "Suspending", "Succeeded"], 1),
        ("resume", ["Suspended", "Queued", "Starting", "Running"], 0),
        ("resume", ["Suspended", "Starting", "Failed"], 1),
        ("restart", ["Restarting", "Invalid"], 1),
        ("resume", ["Suspended", "Starting"], 124),
    ],
)
def test_a_wait_ends_with_the_phase_that_the_command_leads_to(action: str, phases: list[str], code: int) -> None:
    assert change(Jobs(a=phases), ["a"], action, wait=True, timeout="0s") == code


def test_a_failed_request_decides_the_exit_code_before_a_timeout(capsys: pytest.CaptureFixture[str]) -> None:
    jobs = Jobs(a=["Running"], b=["Running", "Suspended"])

    assert change(jobs, ["a", "missing", "b"], "suspend", wait=True, timeout="0s") == 2
    out, err = capsys.readouterr()
    assert out == "tfdistjob/a suspended\ntfdistjob/b suspended\n"
    assert err.splitlines() == [
        'job "missing" not found in namespace "team"',
        "a is Running after 0 s: why",
        "b Suspended: why",
    ]


def test_a_name_that_is_given_twice_is_changed_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert change(Jobs(a=["Running"]), ["a", "tfdistjob/a"], "suspend") == 0
    assert capsys.readouterr().out == "tfdistjob/a suspended\n"


def test_a_cluster_that_does_not_answer_ends_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    class Away(Jobs):
        def get(self, name: str) -> Job:
            raise NoCluster(name)

    with pytest.raises(NoCluster, match=r"^a$"):
        change(Away(), ["a", "b"], "suspend")
    assert capsys.readouterr() == ("", "")


def test_a_timeout_that_is_no_duration_changes_nothing() -> None:
    jobs = Jobs(a=["Running"])

    with pytest.raises(CommandError, match="write a duration"):
        change(jobs, ["a"], "suspend", wait=True, timeout="soon")
    assert jobs.changes == {}


def test_the_number_of_workers_of_a_job_without_workers_is_not_changed() -> None:
    class OneChief(Jobs):
        def get(self, name: str) -> Job:
            return Job({**super().get(name).manifest, "spec": {"chief": {}}})

    jobs = OneChief(a=["Suspended"])
    with pytest.raises(NotPossible, match=r'job "a" has no workers: spec\.worker is not set'):
        control.set_workers(JobsClient(jobs), "a", 3)
    assert jobs.changes == {}


@pytest.mark.parametrize("final", [JobPhase.SUCCEEDED, JobPhase.FAILED])
def test_a_finished_job_is_not_scaled(final: JobPhase) -> None:
    with pytest.raises(NotPossible, match=rf"cannot be scaled: it has finished \({final}\)"):
        control.set_workers(JobsClient(Jobs(a=[final])), "a", 3)


def test_a_command_to_copy_has_the_namespace_only_if_it_is_not_that_of_the_context() -> None:
    assert to_copy(JobsClient(Jobs()), "resume", "a") == "tfdist resume a"
    assert to_copy(JobsClient(Jobs(), own="default"), "resume", "a") == "tfdist resume a -n team"


def test_a_job_is_described_without_the_right_to_read_events(capsys: pytest.CaptureFixture[str]) -> None:
    assert show.print_description(JobsClient(Jobs(a=["Running"])), Reference.parse("a")) == 0
    assert capsys.readouterr().out.endswith("Events:          not available: events is forbidden\n")


@pytest.mark.parametrize(
    ("action", "spec", "step", "is_shown"),
    [
        ("suspend", {}, 500, True),
        ("restart", {}, 500, True),
        ("resume", {}, 500, False),
        ("suspend", {"checkpoint": {"directory": "/ckpt/a"}}, 500, False),
        ("suspend", {}, None, False),
    ],
)
def test_a_job_without_checkpoints_is_reported_to_begin_again(
    action: str, spec: dict[str, Any], step: int | None, is_shown: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    class Trained(Jobs):
        def get(self, name: str) -> Job:
            progress = {} if step is None else {"progress": {"step": step}}
            return stored(name, {"phase": "Running"} | progress, **spec)

    assert change(Trained(a=["Running"]), ["a"], action) == 0
    loss = "warning: a has no spec.checkpoint: it begins again at step 0, and loses 500 steps, unless"
    assert (loss in capsys.readouterr().err) is is_shown


@pytest.mark.parametrize("request_of", [JobHandle.suspend, JobHandle.restart])
def test_a_handle_warns_that_a_job_without_checkpoints_begins_again(request_of: Callable[[JobHandle], Job]) -> None:
    class Trained(Jobs):
        def get(self, name: str) -> Job:
            return stored(name, {"phase": "Running", "progress": {"step": 500}})

    with pytest.warns(UserWarning, match="a has no spec.checkpoint: it begins again at step 0, and loses 500 steps"):
        job = request_of(Trained(a=["Running"]).attach("a"))
    assert "loses 500 steps" in job.loss


@pytest.mark.parametrize(
    ("message", "lines"), [("evaluated 9 examples at step 7: accuracy=0.5000", 1), ("training", 2)]
)
def test_an_evaluation_that_the_message_of_the_job_has_is_not_repeated(message: str, lines: int) -> None:
    # given a job that has ended with this message, and with an evaluation
    final = {"step": 7, "metrics": {"accuracy": 0.5}, "examples": 9}
    job = stored("a", {"phase": "Succeeded", "summary": {"message": message}, "evaluation": {"final": final}})
    # then it is shown once
    result = list(attach._result(job))
    assert len(result) == lines
    assert sum("at step 7" in line for line in result) == 1
