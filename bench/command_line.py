"""The command `tfdist`: how long it takes to start, to check many documents, and to list the jobs of a cluster."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from support.controller import install

from bench import cli_validate
from bench.bulk import Request
from bench.cluster import Cluster, fresh
from bench.results import Row, Target
from tfdist_cluster import tools

JOBS: Final = 1000
RUNS: Final = 5
START: Final = Target(value=0.15, text="<= 0.15 s")
FIRST_LINE: Final = Target(value=0.4, text="<= 0.4 s")
LIST: Final = Target(value=1.0, text="<= 1 s")
_PATH: Final = "/apis/tfdist.dev/v1/namespaces/{}/tfdistjobs"


def run() -> list[Row]:
    """Return the best of some runs of whole processes; the peer of `list` is kubectl."""
    with tempfile.TemporaryDirectory() as folder:
        many = Path(folder, "many.yaml")
        many.write_text("---\n".join(cli_validate.JOB.format(number=i) for i in range(cli_validate.DOCUMENTS)))
        start = cli_validate.best("--help")
        check = cli_validate.best("validate", str(many))
    with fresh() as cluster:
        install(cluster.api)
        lists = [_list(cluster, 1, FIRST_LINE), _list(cluster, JOBS, LIST)]
    return [
        Row("command line: `tfdist --help`", start, None, "s", START),
        Row(f"command line: `tfdist validate`, {cli_validate.DOCUMENTS:,} documents", check, None, "s"),
        *lists,
    ]


def _list(cluster: Cluster, jobs: int, target: Target) -> Row:
    """Return the time to the first line of a list of so many jobs, compared with that of kubectl."""
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
