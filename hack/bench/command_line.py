"""The command `tfdist`: how long it takes to start, to check many documents, to list jobs, and to show many logs."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from support.controller import install
from support.log_cluster import JOB, log_cluster

from bench import cli_validate
from bench.bulk import Request
from bench.cluster import Cluster, fresh
from bench.results import Row, Target
from tfdist_cluster import tools
from tfdist_cluster.errors import ClusterError

JOBS: Final = 1000
RUNS: Final = 5
START: Final = Target(value=0.15, text="<= 0.15 s")
FIRST_LINE: Final = Target(value=0.4, text="<= 0.4 s")
LIST: Final = Target(value=1.0, text="<= 1 s")
REPLICAS: Final = 64
LINES: Final = 200_000
"""Of all replicas."""
LOGS: Final = Target(value=4.0, text="<= 4 s: 50,000 lines/s")
_PER_SECOND: Final = 800
"""Lines of a replica by the times in its log."""
_PATH: Final = "/apis/tfdist.dev/v1/namespaces/{}/tfdistjobs"


def run() -> list[Row]:
    """Return the best of some runs of whole processes; the peer of `list` is kubectl."""
    with tempfile.TemporaryDirectory() as folder:
        many_file = Path(folder, "many.yaml")
        many_file.write_text("---\n".join(cli_validate.JOB.format(number=i) for i in range(cli_validate.DOCUMENTS)))
        start = cli_validate.best("--help")
        check = cli_validate.best("validate", str(many_file))
    with fresh() as cluster:
        install(cluster.api)
        lists = [_list(cluster, 1, FIRST_LINE), _list(cluster, JOBS, LIST)]
        logs = _logs(cluster)
    return [
        Row("command line: `tfdist --help`", start, None, "s", START),
        Row(f"command line: `tfdist validate`, {cli_validate.DOCUMENTS:,} documents", check, None, "s"),
        *lists,
        *logs,
    ]


def _list(cluster: Cluster, jobs: int, target: Target) -> Row:
    """Return the time to the first line of a list of this number of jobs, compared with kubectl's."""
    namespace = cluster.namespace(f"list-{jobs}")
    job = {"apiVersion": "tfdist.dev/v1", "kind": "TFDistJob", "spec": {"image": "example.com/trainer"}}
    path = _PATH.format(namespace)
    cluster.bulk.send([Request("POST", path, job | {"metadata": {"name": f"job-{i:04}"}}) for i in range(jobs)])
    ours = [sys.executable, "-m", "tfdist.cli", "list"]
    peer = [str(tools.ensure(cluster.programs, "kubectl")), "get", "tfdistjobs"]
    best: dict[str, float] = {}
    for _ in range(RUNS):
        for name, command in (("ours", ours), ("peer", peer)):
            best[name] = min(best.get(name, 60), _first_line([*command, "-n", namespace], cluster.kubeconfig))
    title = f"command line: first line of `tfdist list`, {jobs:,} job{'s' if jobs > 1 else ''}, compared with kubectl"
    return Row(title, best["ours"], best["peer"], "s", target)


def _logs(cluster: Cluster) -> list[Row]:
    """Return how long the complete command takes for the logs of a job that has ended, followed and not."""
    namespace = cluster.namespace("logs")
    with tempfile.TemporaryDirectory() as folder, log_cluster(cluster.api, namespace, Path(folder)) as job:
        job.submit(workers=REPLICAS)
        pods = [job.start(f"worker-{index}") for index in range(REPLICAS)]
        for pod in pods:
            for number in range(LINES // REPLICAS):
                second, part = divmod(number, _PER_SECOND)
                moment = f"2030-01-01T00:00:{second:02}.{part * 1_000_000_000 // _PER_SECOND:09}Z"
                job.kubelet.log(pod).write(f"step {number} of {pod}: loss 0.12345, accuracy 0.98765", at=moment)
        job.succeed(pods)
        rows = []
        for name, options in (("tfdist logs --follow", ["--follow"]), ("tfdist logs", [])):
            command = [sys.executable, "-m", "tfdist.cli", "logs", JOB, "--all", *options]
            seconds, cpu = min(_log_seconds([*command, "--kubeconfig", str(job.kubeconfig)]) for _ in range(RUNS))
            title = f"command line: `{name}`, {LINES:,} lines of {REPLICAS} replicas"
            rows.append(Row(title, seconds, None, "s", LOGS, f"{cpu:.1f} s of CPU"))
        return rows


def _log_seconds(command: list[str]) -> tuple[float, float]:
    """Return the seconds that a command which shows all lines takes, and its CPU seconds.

    Raises:
        ClusterError: lines are missing, or shown twice.
    """
    start = time.perf_counter()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, stdout=output)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.perf_counter() - start
        output.seek(0)
        lines = sum(1 for _ in output)
    if process.returncode or lines != LINES:
        raise ClusterError(f"{command}: {lines} lines of {LINES}, exit code {process.returncode}")
    return seconds, usage.ru_utime + usage.ru_stime


def _first_line(command: list[str], kubeconfig: Path) -> float:
    start = time.perf_counter()
    environment = os.environ | {"KUBECONFIG": str(kubeconfig)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None  # noqa: S101  it is a pipe
        process.stdout.readline()
        seconds = time.perf_counter() - start
        process.stdout.read()
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return seconds
