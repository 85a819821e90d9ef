"""`tfdist logs` and `attach` as a user with the role `edit`, with the logs of a kubelet that the test plays."""

import contextlib
import os
import pathlib
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from support.api import Api
from support.log_cluster import JOB, Cluster, at, failure_of, log_cluster
from support.polling import wait_for
from support.proxy import Proxy, proxy

from tfdist import Client

pytestmark = pytest.mark.integration

EQUAL = "2030-01-01T00:00:05.500000000Z"


@pytest.fixture
def cluster(api: Api, namespace: str, tmp_path: pathlib.Path) -> Iterator[Cluster]:
    with log_cluster(api, namespace, tmp_path) as made:
        yield made


@pytest.fixture
def gang(cluster: Cluster) -> list[str]:
    """The pods of a job with two running workers."""
    cluster.submit()
    return [cluster.start("worker-0"), cluster.start("worker-1")]


@pytest.fixture
def connection(api: Api) -> Iterator[Proxy]:
    with proxy(api.host) as made:
        yield made


def test_the_logs_of_two_replicas_are_printed_in_order_of_time(cluster: Cluster, gang: list[str]) -> None:
    cluster.kubelet.log(gang[0]).write("first", at=at(1))
    cluster.kubelet.log(gang[0]).write("third", at=at(3))
    cluster.kubelet.log(gang[1]).write("second", at=at(2))

    ended = cluster.finished("logs", JOB)

    assert ended.output == "worker-0 | first\nworker-1 | second\nworker-0 | third\n"
    assert (ended.errors, ended.process.returncode) == ("", 0)


def test_the_options_of_logs_select_lines(cluster: Cluster, gang: list[str]) -> None:
    cluster.kubelet.log(gang[1]).write("loss 3", "note", "loss 2", at=at(2))

    assert cluster.finished("logs", JOB, "worker-1", "--grep", "loss").output.count("\n") == 2
    assert cluster.finished("logs", JOB, "worker-1", "--tail", "1").output == "worker-1 | loss 2\n"
    assert cluster.finished("logs", JOB, "--timestamps", "--tail", "1").output == f"worker-1 | {at(2)} loss 2\n"
    cluster.finished("logs", JOB, "worker-0", "--since", "10m")
    assert cluster.kubelet.requests[-1]["sinceSeconds"] in {"600", "601", "602"}


def test_a_replica_that_does_not_exist_is_named_with_those_that_do(cluster: Cluster, gang: list[str]) -> None:
    assert gang
    ended = cluster.finished("logs", JOB, "worker-7")

    assert ended.errors == "fashion has no replica worker-7: it has worker-0 to worker-1\n"
    assert ended.process.returncode == 2


def test_of_many_replicas_only_the_leader_is_shown_unless_all_are_requested(cluster: Cluster) -> None:
    cluster.submit(workers=17)
    for replica in ("worker-0", "worker-16"):
        cluster.kubelet.log(cluster.start(replica)).write("here", at=at(1))

    leader = cluster.finished("logs", JOB)
    assert leader.output == "worker-0  | here\n"
    assert (
        leader.errors == "fashion has 17 replicas: only the log of worker-0, which leads, is shown; --all shows all\n"
    )
    assert cluster.finished("logs", JOB, "--all").output == "worker-0  | here\nworker-16 | here\n"


def test_the_pods_of_an_earlier_attempt_are_read_by_its_number(cluster: Cluster, gang: list[str]) -> None:
    cluster.kubelet.log(gang[0]).write("old", at=at(1))
    cluster.end(gang[0], 1)
    cluster.kubelet.log(cluster.start("worker-0", attempt=1)).write("new", at=at(9))
    cluster.report("Running", "all 2 replicas run", attempt=1)

    assert cluster.finished("logs", JOB, "worker-0").output == "worker-0 | new\n"
    assert cluster.finished("logs", JOB, "worker-0", "--attempt", "0").output == "worker-0 | old\n"
    assert cluster.finished("logs", JOB, "worker-0", "--previous").output == "worker-0 | old\n"
    missing = cluster.finished("logs", JOB, "--attempt", "7")
    assert missing.errors == "fashion has no logs of attempt 7: there are pods of attempt 0, 1\n"
    assert missing.process.returncode == 1


def test_the_log_of_a_failed_init_container_explains_a_replica_that_did_not_start(cluster: Cluster) -> None:
    cluster.submit()
    pod = cluster.start("worker-0", word="P")
    cluster.fail_init_container(pod)
    cluster.kubelet.log(pod, "tfdist-fetch").write("repository not found", at=at(1))
    cluster.kubelet.log(pod, "tfdist-fetch").end()

    assert cluster.finished("logs", JOB).output == "worker-0/fetch | repository not found\n"


def test_a_job_without_pods_has_no_logs(cluster: Cluster) -> None:
    cluster.submit()
    cluster.report("Queued", "waiting for quota")

    ended = cluster.finished("logs", JOB)

    assert (ended.errors, ended.process.returncode) == ("fashion has no logs: Queued: waiting for quota\n", 1)


def test_streams_that_are_cut_in_a_line_and_between_equal_times_lose_and_repeat_no_line(
    cluster: Cluster, gang: list[str]
) -> None:
    """Given streams cut in a line and between lines of one time; when the log has ended, then each line came once."""
    log, line = cluster.kubelet.log(gang[0]), len(f"{EQUAL} same\n")
    log.write("same", "same", "same", at=EQUAL)
    log.cut_after(line + 3, 2 * line, 0, 3 * line - 1)
    cluster.report("Running", "all 2 replicas run")

    with cluster.run("logs", JOB, "-f") as command:
        wait_for("the log to be resumed", lambda: log.streams > 4)
        log.write("last", at=at(8))
        for pod in gang:
            cluster.end(pod)
        cluster.report("Succeeded", "training succeeded")
        assert command.wait() == 0

    assert command.output == "worker-0 | same\n" * 3 + "worker-0 | last\n"


def test_a_closed_connection_to_the_api_server_loses_no_line(
    cluster: Cluster, gang: list[str], connection: Proxy
) -> None:
    log = cluster.kubelet.log(gang[1])
    log.write("before", "before", at=at(1))
    cluster.report("Running", "all 2 replicas run")
    cluster.through(connection.address)

    with cluster.run("logs", JOB, "-f") as command:
        command.wait_for("worker-1 | before")
        connection.close_connections()
        log.write("meanwhile", at=at(1))
        command.wait_for("meanwhile")
        for pod in gang:
            cluster.end(pod)
        cluster.report("Failed", "worker-0 failed")
        assert command.wait() == 0

    assert command.output == "worker-1 | before\n" * 2 + "worker-1 | meanwhile\n"
    assert log.streams > 1


def test_a_new_attempt_is_followed_after_a_separating_line(cluster: Cluster, gang: list[str]) -> None:
    cluster.kubelet.log(gang[0]).write("attempt 0", at=at(1))
    cluster.report("Running", "all 2 replicas run")

    with cluster.run("logs", JOB, "-f", "--tail", "1") as command:
        command.wait_for("worker-0 | attempt 0")
        for pod in gang:
            cluster.end(pod, 1)
        again = cluster.start("worker-0", attempt=1)
        cluster.kubelet.log(again).write("restored", "step 10", at=at(9))
        command.wait_for("step 10")
        cluster.end(again)
        cluster.report("Succeeded", "training succeeded", attempt=1)
        assert command.wait() == 0

    lines = "worker-0 | attempt 0\n---- attempt 1 ----\nworker-0 | restored\nworker-0 | step 10\n"
    assert command.output == lines


def test_attach_waits_for_a_queued_job_and_ends_with_its_result(cluster: Cluster) -> None:
    """Given a queued job; when it runs, restarts, and succeeds, then each is shown, and its result at the end."""
    cluster.submit()
    cluster.report("Queued", "waiting for quota")

    with cluster.run("attach", JOB) as command:
        command.wait_for("Queued: waiting for quota")
        pod = cluster.start("worker-0")
        cluster.kubelet.log(pod).write("step 1", at=at(1))
        cluster.report("Running", "all 2 replicas run", progress={"step": 5, "totalSteps": 10})
        command.wait_for("step 5 of 10")
        command.wait_for("worker-0 | step 1")
        cluster.report("Restarting", "worker-1 ended with exit code 1")
        command.wait_for("Restarting: worker-1 ended with exit code 1")
        cluster.end(pod)
        evaluation = {"final": {"step": 10, "metrics": {"accuracy": 0.8892, "loss": 0.3}}}
        export = {"final": {"directory": "/export/final", "step": 10}}
        cluster.report("Succeeded", "training succeeded", evaluation=evaluation, export=export)
        assert command.wait() == 0

    assert command.output.endswith(
        "fashion Succeeded: training succeeded\n"
        "evaluation at step 10: accuracy 0.8892, loss 0.3000\n"
        "last model, of step 10: /export/final\n"
    )


def test_attach_to_a_failed_job_prints_the_end_of_its_logs_and_has_its_exit_code(
    cluster: Cluster, gang: list[str]
) -> None:
    cluster.kubelet.log(gang[0]).write(*[f"line {i}" for i in range(30)], at=at(1))
    for pod in gang:
        cluster.end(pod, 66)
    cluster.report("Failed", "worker-0 ended with exit code 66", failures=[failure_of(gang[0], 66)])

    ended = cluster.finished("attach", JOB)

    assert ended.process.returncode == 66
    lines = [f"worker-0 | line {i}" for i in range(20, 30)]
    assert ended.output.splitlines() == [*lines, "fashion Failed: worker-0 ended with exit code 66"]


def test_ctrl_c_detaches_from_a_job_that_goes_on(cluster: Cluster, gang: list[str]) -> None:
    cluster.kubelet.log(gang[0]).write("step 1", at=at(1))
    cluster.report("Running", "all 2 replicas run")

    with cluster.run("attach", JOB) as command:
        command.wait_for("worker-0 | step 1")
        command.process.send_signal(signal.SIGINT)
        assert command.wait() == 130

    assert command.errors == (
        "detached; fashion goes on. Attach again: tfdist attach fashion; stop it for now: tfdist suspend fashion; "
        "delete it: tfdist delete fashion\n"
    )
    assert Client(kubeconfig=cluster.kubeconfig).get(JOB).phase == "Running"


def test_attach_shows_the_progress_below_the_lines_on_a_terminal(cluster: Cluster, gang: list[str]) -> None:
    cluster.kubelet.log(gang[0]).write("step 1", at=at(1))
    cluster.report("Running", "all 2 replicas run", progress={"step": 5, "totalSteps": 10})
    terminal, its_end = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "NO_COLOR": "", "COLUMNS": "120"}
    command = [sys.executable, "-m", "tfdist.cli", "attach", JOB, "--kubeconfig", str(cluster.kubeconfig)]
    shown = bytearray()

    with subprocess.Popen(command, stdout=its_end, stderr=its_end, env=environment) as attached:
        os.close(its_end)
        while b"step 1\r\n" not in shown or b"step 5 of 10" not in shown:
            shown += os.read(terminal, 2**16)
        attached.send_signal(signal.SIGINT)
        with contextlib.suppress(OSError):  # the terminal is closed
            while received := os.read(terminal, 2**16):
                shown += received
    os.close(terminal)

    assert attached.returncode == 130
    assert "\x1b[36mworker-0 | \x1b[0mstep 1\r\n" in shown.decode()
    assert "50%" in shown.decode()
    assert shown.decode().splitlines()[-1].endswith("delete it: tfdist delete fashion")
    assert shown.rindex(b"\x1b[?25h") > shown.rindex(b"\x1b[?25l")  # the cursor is visible again


@pytest.mark.parametrize("command", [("attach",), ("logs", "-f")])
def test_a_job_that_is_deleted_ends_the_command_with_one_line(
    cluster: Cluster, gang: list[str], command: tuple[str, ...]
) -> None:
    cluster.kubelet.log(gang[0]).write("step 1", at=at(1))
    cluster.report("Running", "all 2 replicas run")

    with cluster.run(*command, JOB) as running:
        running.wait_for("worker-0 | step 1")
        cluster.kubelet.log(gang[0]).write("saved", at=at(2))
        cluster.delete()
        for pod in gang:
            cluster.remove(pod)
        assert running.wait() == 2

    assert "worker-0 | saved" in running.output
    assert running.errors.splitlines()[-1] == 'job "fashion" was deleted'
    assert "Traceback" not in running.errors


def test_a_missing_job_is_one_line(cluster: Cluster) -> None:
    ended = cluster.finished("attach", "nothing")

    assert ended.errors.count("\n") == 1
    assert '"nothing"' in ended.errors
    assert ended.process.returncode == 2


def test_python_reads_the_lines_of_a_replica(cluster: Cluster, gang: list[str]) -> None:
    cluster.kubelet.log(gang[1]).write("a", "b", at=at(1))
    handle = Client(kubeconfig=cluster.kubeconfig).attach(JOB)

    assert [line.text for line in handle.logs("worker", 1)] == ["a", "b"]
    (line,) = handle.tail(1)
    assert (line.replica, line.attempt, line.pod, line.time, line.text) == ("worker-1", 0, gang[1], at(1), "b")
