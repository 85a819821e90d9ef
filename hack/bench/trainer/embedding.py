"""What a step exchanges with the parameter server for an embedding of a million rows, compared with whole tables.

Parameter server and worker are reached through proxies, which count the bytes of both directions: whoever needs a
tensor connects to the process that has it, so that a worker fetches rows, and the parameter server fetches gradients.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from support.polling import wait_for
from support.ports import free_ports
from support.proxy import proxy

from bench.results import Row, Target
from bench.trainer.processes import TIMEOUT_SECONDS, environ
from tfdist_trainer.strategies.peers import is_listening

ROWS: Final = 1_000_000
BATCH: Final = 512
"""Examples of a step, each of which uses two rows of 16 numbers."""
STEPS: Final = 200
STEPS_OF_WHOLE_TABLES: Final = 10
"""Fewer, as each takes 128 MB."""
ONE_PERCENT: Final = Target(ratio=0.01, text="<= 1 % of whole tables")
Cluster = dict[str, list[str]]


def run(folder: Path) -> list[Row]:
    """Return the bytes of a step, without and with a share of the checkpoint at the end of training."""
    rows = _exchanged_bytes(folder / "rows", {"steps": STEPS}) / STEPS
    bytes_per_save = _exchanged_bytes(folder / "saved", {"steps": STEPS}, checkpoint=True) / STEPS
    whole_table_config = {"steps": STEPS_OF_WHOLE_TABLES, "wholeTable": True}
    tables = _exchanged_bytes(folder / "tables", whole_table_config) / STEPS_OF_WHOLE_TABLES
    title = f"embedding of {ROWS:,} rows of 16 numbers: traffic of a step of {BATCH} examples with the parameter server"
    note = f"{STEPS} steps, from the start to the end of the job; whole tables: {STEPS_OF_WHOLE_TABLES} steps"
    with_checkpoint = (
        f"a checkpoint of {(bytes_per_save - rows) * STEPS / 1e6:.0f} MB after {STEPS} steps, added to both"
    )
    return [
        Row(title, rows / 1e6, tables / 1e6, "MB", ONE_PERCENT, note),
        Row(
            f"{title}, with a checkpoint",
            bytes_per_save / 1e6,
            (tables + bytes_per_save - rows) / 1e6,
            "MB",
            note=with_checkpoint,
        ),
    ]


def _exchanged_bytes(folder: Path, config: dict[str, Any], *, checkpoint: bool = False) -> int:
    """Return the bytes that chief, worker and parameter server have exchanged in a whole job."""
    folder.mkdir(parents=True)
    chief, worker, server = (f"127.0.0.1:{port}" for port in free_ports(3))
    job: dict[str, Any] = {
        "name": "bench", "namespace": "default", "uid": "bench", "strategy": "ParameterServer",
        "replicas": {"chief": 1, "worker": 1, "ps": 1},
        "training": {
            "program": "support.embedding_program:Table",
            "config": {"rows": ROWS, "batchSizePerReplica": BATCH, **config},
        },
    }  # fmt: skip
    if checkpoint:
        job["checkpoint"] = {"directory": str(folder / "checkpoints"), "everySteps": STEPS}  # not at each epoch
    cluster: Cluster = {"chief": [chief], "worker": [worker], "ps": [server]}
    with ExitStack() as stack:
        for role in ("worker", "ps"):
            stack.enter_context(_process(folder, role, cluster, job))
        # A proxy needs a server that listens.
        wait_for("worker and parameter server", lambda: is_listening(worker) and is_listening(server))
        proxies = [stack.enter_context(proxy(f"tcp://{address}")) for address in (worker, server)]
        addresses = [proxy_server.address.removeprefix("https://") for proxy_server in proxies]
        # The others learn the addresses from the chief.
        leading = cluster | {"worker": addresses[:1], "ps": addresses[1:]}
        process = stack.enter_context(_process(folder, "chief", leading, job))
        if process.wait(TIMEOUT_SECONDS):
            raise RuntimeError(f"exit code {process.returncode}: {(folder / 'chief').read_text()}")
        return sum(proxy_server.forwarded_bytes for proxy_server in proxies)


@contextmanager
def _process(folder: Path, role: str, cluster: Cluster, job: dict[str, Any]) -> Iterator["subprocess.Popen[bytes]"]:
    """Run the only replica of `role`, with its output in a file of that name, and kill it at the end."""
    described = {
        "TFDIST_JOB": json.dumps(job | {"role": role, "index": 0}),
        "TFDIST_REPORT_PORT": "0",
        "TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": role, "index": 0}}),
        "TMPDIR": str(folder),
    }
    with (folder / role).open("wb") as output:
        command = [sys.executable, "-m", "tfdist_trainer"]
        process = subprocess.Popen(command, env=environ() | described, stdout=output, stderr=subprocess.STDOUT)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
