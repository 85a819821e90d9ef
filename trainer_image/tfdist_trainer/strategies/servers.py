"""Workers and parameter servers of an asynchronous gang: each runs TensorFlow's server until the chief is done.

The server executes what the chief sends and knows nothing of training. That training is done the chief tells by an
operation as well: it has each server write a file (`done_path`) in its own temporary folder, and the server's main
thread, which looks for it, ends with 0. A chief that is gone without a word may come back: its servers wait.
"""

import hashlib
import tempfile
import time
from pathlib import Path
from typing import Final

import tensorflow as tf
from tensorflow.python.eager import context as eager_context

from tfdist.contract import Phase
from tfdist_trainer import log
from tfdist_trainer.environment import Member
from tfdist_trainer.errors import PeerLostError
from tfdist_trainer.reporter import Reporter
from tfdist_trainer.strategies.names import listens

POLL_SECONDS: Final = 0.2
CHIEF_SECONDS: Final = 5.0
"""Time between two looks whether the chief is there."""

PATIENCE_SECONDS: Final = 600.0
"""How long a server waits for a chief that is not there, to come or to come back."""


def serve(member: Member, reporter: Reporter) -> None:
    """Serve the chief until it is done.

    Raises:
        PeerLostError: the chief has not been there for `PATIENCE_SECONDS`.
    """
    job = member.job
    done = done_path(member, str(job.role), job.index)
    done.unlink(missing_ok=True)
    cluster = tf.train.ClusterSpec({role: list(places) for role, places in member.cluster.items()})
    server = tf.distribute.Server(
        cluster, job_name=str(job.role), task_index=job.index, protocol="grpc", config=_options(member), start=True
    )
    log.event("serving", role=job.role, index=job.index, at=server.target)
    reporter.update(phase=Phase.TRAINING)
    _wait(done, member.cluster["chief"][0])
    done.unlink(missing_ok=True)
    reporter.update(phase=Phase.FINISHED)


def done_path(member: Member, role: str, index: int) -> Path:
    """Return the file that says to a server that training is done; equal on the chief and on the server.

    The addresses tell gangs apart, in pods and on one machine; without Kubernetes each process has a uid of its own.
    """
    name = hashlib.sha256(str(sorted(member.cluster.items())).encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir(), f"tfdist-done-{name}-{role}-{index}")


def _options(member: Member) -> "tf.compat.v1.ConfigProto":
    """Return the settings of devices and threads that `devices.configure` has made, for a server."""
    options = eager_context.context().config
    # A worker that waits for a parameter server occupies a thread; with fewer than this all may wait for each other
    # (TensorFlow's guide to parameter server training).
    least = len(member.cluster["worker"]) + 1
    if options.inter_op_parallelism_threads:
        options.inter_op_parallelism_threads = max(least, options.inter_op_parallelism_threads)
    return options


def _wait(done: Path, chief: str) -> None:
    """Return when `done` exists."""
    seen = looked = time.monotonic()
    while not done.exists():
        time.sleep(POLL_SECONDS)
        now = time.monotonic()
        if now - looked < CHIEF_SECONDS:
            continue
        looked = now
        if listens(chief):
            seen = now
        elif now - seen > PATIENCE_SECONDS:
            raise PeerLostError(f"the chief at {chief} has not been there for {now - seen:.0f} s")
