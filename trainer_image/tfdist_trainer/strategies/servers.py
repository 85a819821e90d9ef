"""Workers and parameter servers of an asynchronous gang: each runs a `tf.distribute.Server` until it is shut down.

The server executes the operations that the chief sends and has no state of the training. The chief sends the shutdown
as an operation too: it writes a file (`shutdown_marker`) into the temporary folder of each server, whose main thread
polls for the file and then exits with 0. A chief that disconnects without a shutdown may reconnect: its servers wait.
"""

import hashlib
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

import tensorflow as tf

from tfdist.api.training import RuntimeSpec
from tfdist.contract import Phase, replica_name
from tfdist_trainer import log
from tfdist_trainer.environment import GangMember
from tfdist_trainer.errors import PeerLostError, one_line
from tfdist_trainer.private_directory import private_directory
from tfdist_trainer.reporter import Reporter
from tfdist_trainer.strategies import devices
from tfdist_trainer.strategies.peers import is_listening
from tfdist_trainer.upstream.eager_context import server_config

POLL_SECONDS: Final = 0.2
CHIEF_SECONDS: Final = 5.0
"""Time between two checks that the chief is reachable."""

PATIENCE_SECONDS: Final = 600.0
"""How long a server waits for an unreachable chief, before its first connection and after a lost one."""

SHUTDOWN_SECONDS: Final = 10.0
"""How long the chief tries to shut the servers down; a server that it cannot reach has ended."""


def serve(member: GangMember, settings: RuntimeSpec, reporter: Reporter) -> None:
    """Serve the chief until it shuts this server down.

    Raises:
        ConfigurationError: another user of this machine has made the directory of the marker.
        PeerLostError: the chief has been unreachable for `PATIENCE_SECONDS`.
    """
    job = member.job
    devices.configure(settings, job.role, job.gpus)
    marker = shutdown_marker(member, str(job.role), job.index)
    # Other users of the machine must not be able to shut the server down.
    private_directory(marker.parent.name)
    # Of an earlier gang at the same addresses.
    marker.unlink(missing_ok=True)
    cluster = tf.train.ClusterSpec({role: list(addresses) for role, addresses in member.cluster.items()})
    server = tf.distribute.Server(
        cluster, job_name=str(job.role), task_index=job.index, protocol="grpc", config=_options(member), start=True
    )
    log.event("serving", role=job.role, index=job.index, at=server.target)
    reporter.update(phase=Phase.TRAINING)
    _wait(marker, member.cluster["chief"][0])
    marker.unlink(missing_ok=True)
    with suppress(OSError):
        marker.parent.rmdir()
    reporter.update(phase=Phase.FINISHED)


def shutdown_marker(member: GangMember, role: str, index: int) -> Path:
    """Return the file whose existence shuts a server down; the same path on the chief and on the server.

    The path contains a hash of the gang's addresses, which are unique in pods and on one machine; the uid of the job is
    not, because without Kubernetes each process has its own. Its directory is private to the server, which makes the
    file itself, at the request of the chief.
    """
    name = hashlib.sha256(str(sorted(member.cluster.items())).encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir(), f"tfdist-done-{name}-{replica_name(role, index)}", "done")


def shut_down_servers(member: GangMember) -> None:
    """Shut every server down; the controller deletes those that cannot be reached in time."""
    servers = [(role, index) for role in ("worker", "ps") for index in range(len(member.cluster[role]))]
    threads = [threading.Thread(target=_shut_down, args=(member, *server), daemon=True) for server in servers]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + SHUTDOWN_SECONDS
    for thread in threads:
        # In threads: one server that does not answer must not delay the others.
        thread.join(max(0.0, deadline - time.monotonic()))


def _options(member: GangMember) -> "tf.compat.v1.ConfigProto":
    """Return the settings of devices and threads that `devices.configure` has made, for a server."""
    options = server_config()
    # A worker that waits for a parameter server occupies a thread; with fewer than this all may wait for each other
    # (TensorFlow's guide to parameter server training).
    min_threads = len(member.cluster["worker"]) + 1
    if options.inter_op_parallelism_threads:
        options.inter_op_parallelism_threads = max(min_threads, options.inter_op_parallelism_threads)
    return options


def _wait(marker: Path, chief: str) -> None:
    """Return when `marker` exists."""
    reached_at = checked_at = time.monotonic()
    while not marker.exists():
        time.sleep(POLL_SECONDS)
        now = time.monotonic()
        if now - checked_at < CHIEF_SECONDS:
            continue
        checked_at = now
        # A chief that is gone may restart: the servers keep waiting for it.
        if is_listening(chief):
            reached_at = now
        elif now - reached_at > PATIENCE_SECONDS:
            raise PeerLostError(f"the chief at {chief} has not been there for {now - reached_at:.0f} s")


def _shut_down(member: GangMember, role: str, index: int) -> None:
    try:
        with tf.device(f"/job:{role}/replica:0/task:{index}/device:CPU:0"):
            tf.io.write_file(str(shutdown_marker(member, role, index)), "done")
    except tf.errors.OpError as error:
        log.event("shutdown-not-acknowledged", role=role, index=index, reason=one_line(error.message)[:200])
