"""Life cycle of a job in a local run: the planner of the controller decides about it."""

import re
import signal

import pytest
from support.local_runs import POLITE, WHO, LocalRuns

HANGS = f"""{WHO}
from http.server import BaseHTTPRequestHandler, HTTPServer
if attempt: sys.exit(0)
report = {{"role": "worker", "index": 0, "attempt": 0, "phase": "training", "step": 7, "totalSteps": 9}}
class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"the stacks" if "stacks" in self.path else json.dumps(report).encode())
HTTPServer(("127.0.0.1", int(os.environ["TFDIST_REPORT_PORT"])), Handler).serve_forever()
"""


def test_a_user_error_fails_the_job_with_the_exit_code_and_message_of_the_replica(start_run: LocalRuns) -> None:
    run = start_run(f"{WHO}\nif index == 1: print('no luck'); sys.exit(64)\ntime.sleep(600)", grace=1)
    code, output = run.end()
    assert code == 64
    assert "worker-1 | no luck" in output
    assert "worker-1 (pod job-worker-1) ended with exit code 64: no luck; a restart would fail the same way" in output
    assert output.splitlines()[-1].endswith("its log: .tfdist/job/logs/worker-1.log")
    [failure] = run.status()["failures"]
    assert (failure["role"], failure["index"], failure["exitCode"]) == ("worker", 1, 64)
    assert (failure["reason"], failure["message"], failure["rootCause"]) == ("UserError", "no luck", True)


def test_a_worker_that_fails_restarts_with_its_gang_on_the_same_ports(start_run: LocalRuns) -> None:
    program = f"{WHO}\nprint('attempt', attempt, os.environ['TF_CONFIG'])\nif index == 1 and not attempt: sys.exit(3)"
    run = start_run(f"{program}\nif not attempt: time.sleep(600)", grace=1, successPolicy="AllWorkers")
    code, output = run.end()
    assert code == 0, output
    first, second = run.log("worker-1").splitlines()
    assert (first[:9], second[:9]) == ("attempt 0", "attempt 1")
    assert first[9:] == second[9:]
    status = run.status()
    assert (status["attempt"], status["restarts"]["counted"], status["phase"]) == (1, 1, "Succeeded")
    assert status["replicas"]["worker"]["succeeded"] == 2
    assert "Restarting: worker-1 (pod job-worker-1) ended with exit code 3" in output


def test_a_failure_beyond_the_backoff_limit_fails_the_job(start_run: LocalRuns) -> None:
    program = f"{WHO}\nif index == 1: sys.exit('no luck in the ' + ['first', 'second'][attempt])\ntime.sleep(600)"
    run = start_run(program, grace=1, runPolicy={"backoffLimit": 1})
    code, output = run.end()
    assert code == 1
    assert "no luck in the second; runPolicy.backoffLimit of 1 exceeded" in output.splitlines()[-1]
    assert run.condition("Failed")["reason"] == "BackoffLimitExceeded"
    causes = [failure for failure in run.status()["failures"] if failure["rootCause"]]
    assert [(failure["attempt"], failure["counted"]) for failure in causes] == [(0, True), (1, True)]


def test_the_same_error_in_two_attempts_fails_the_job(start_run: LocalRuns) -> None:
    run = start_run("raise SystemExit('no luck')", worker={"replicas": 1})
    code, _ = run.end()
    assert code == 1
    assert run.condition("Failed")["reason"] == "RepeatedError"
    assert run.log("worker-0").splitlines() == ["no luck"] * 2


def test_a_job_that_is_active_for_too_long_fails(start_run: LocalRuns) -> None:
    run = start_run(POLITE, runPolicy={"activeDeadlineSeconds": 2})
    code, _ = run.end()
    assert code == 124
    assert run.condition("Failed")["reason"] == "ActiveDeadlineExceeded"


def test_a_replica_that_stops_reporting_progress_is_stalled_and_restarts(start_run: LocalRuns) -> None:
    run = start_run(HANGS, runPolicy={"progressDeadlineSeconds": 1}, worker={"replicas": 1}, grace=1)
    code, output = run.end()
    assert code == 0, output
    [failure] = run.status()["failures"]
    assert (failure["reason"], failure["attempt"], failure["counted"]) == ("Stalled", 0, True)
    assert failure["stacks"] == "worker-0: the stacks"


def test_an_evaluation_follows_training_and_ends_the_job(start_run: LocalRuns) -> None:
    program = f"{WHO}\nprint(job['role'], 'runs as', job['task'], flush=True)"
    saved = {"directory": "/c", "volume": {"persistentVolumeClaim": {"claimName": "saved"}}}
    run = start_run(program, evaluation={"mode": "AfterTraining"}, checkpoint=saved)
    code, output = run.end()
    assert code == 0, output
    lines = output.splitlines()
    assert lines.index("worker-0     | worker runs as Train") < lines.index(
        "evaluation-0 | evaluation runs as Evaluate"
    )
    assert run.condition("Evaluated")["status"] == "True"


def test_a_job_that_ctrl_c_has_stopped_is_suspended(start_run: LocalRuns) -> None:
    run = start_run(POLITE)
    run.until_ready("worker-0", "worker-1")
    run.process.send_signal(signal.SIGINT)
    code, output = run.end()
    assert code == 130
    assert re.search(r"Suspended after \w+ by Ctrl-C$", output.splitlines()[-1])
    assert run.status()["phase"] == "Suspended"
    assert run.condition("Suspended")["reason"] == "Suspended"


def test_a_command_that_does_not_exist_is_a_user_error(start_run: LocalRuns) -> None:
    run = start_run("", command=["no-such-program"])
    code, output = run.end()
    assert code == 127
    assert "cannot run no-such-program: No such file or directory" in output
    assert run.status()["failures"][-1]["reason"] == "UserError"


def test_parameter_servers_are_stopped_when_the_chief_has_succeeded(start_run: LocalRuns) -> None:
    program = f"import os, sys\nif '\"type\":\"chief\"' in os.environ['TF_CONFIG']: sys.exit(0)\n{POLITE}"
    run = start_run(program, strategy="ParameterServer", chief={}, worker={"replicas": 1}, ps={"replicas": 1})
    code, output = run.end()
    assert code == 0, output
    counts = run.status()["replicas"]
    assert {role: (each["running"], each["failed"]) for role, each in counts.items()} == {
        "chief": (0, 0),
        "worker": (0, 0),
        "ps": (0, 0),
    }


def test_a_gang_restarts_in_place_up_to_the_backoff_limit(start_run: LocalRuns) -> None:
    pytest.importorskip("tfdist_launch", reason="the launcher is not part of this environment")
    word = "''.join(chr(97 + byte % 26) for byte in os.urandom(9))"  # the same words twice would be a RepeatedError
    program = f"import os, sys\nif '\"index\":1' in os.environ['TF_CONFIG']: sys.exit('no luck: ' + {word})\n{POLITE}"
    run = start_run(program, "--in-place", runPolicy={"backoffLimit": 1})
    code, output = run.end()
    assert code == 1, output
    assert run.log("worker-1").count("no luck: ") == 2
    status = run.status()
    assert status["restarts"]["counted"] == 1
    assert run.condition("Failed")["reason"] == "BackoffLimitExceeded"
    last = status["failures"][-1]
    assert (last["role"], last["index"], last["reason"]) == ("worker", 1, "ApplicationError")
