"""`tfdist tensorboard JOB`: the TensorBoard of a job, at a port of this machine."""

import contextlib
import http.client
import sys
import threading
import webbrowser
from contextlib import closing
from typing import Annotated, Final

import typer

from tfdist.cli.command_line import command
from tfdist.cli.commands.port_forward import wait_for_interrupt
from tfdist.cli.connection import ClusterOptions
from tfdist.cli.errors import CommandError
from tfdist.cli.exit_code import CommandExitCode
from tfdist.cli.find import attach
from tfdist.cli.options import JobName
from tfdist.cli.output import message
from tfdist.client.client import Client
from tfdist.client.errors import NotPossible
from tfdist.client.job import Job
from tfdist.client.job_handle import JobHandle
from tfdist.client.port_forward import HOST, PortForward
from tfdist.client.replica_pods import ReplicaPod, tensorboard_pod
from tfdist.render.tensorboard import PORT

_PAUSE: Final = 1.0
_ANSWER_SECONDS: Final = 10.0


@command
def tensorboard(
    connection: ClusterOptions,
    name: JobName,
    *,
    port: Annotated[int, typer.Option(min=0, max=65535, metavar="PORT", help="Local port; 0 for a free one.")] = 0,
    no_open: Annotated[bool, typer.Option("--no-open", help="Do not open a browser.")] = False,
) -> int:
    """Open the TensorBoard of a job that sets `spec.tensorBoard`.

    Forwards a port of this machine to it until Ctrl-C.

    Exits 0 after Ctrl-C, or 2 if the job has no TensorBoard or a request fails, 130 after Ctrl-C before TensorBoard
    answers.
    """
    client = connection.client()
    handle = attach(client, name)
    _check(handle.job)
    forward = PortForward(client.api, lambda: _ready_pod(client, handle), PORT, port)
    with closing(forward):
        _await_answer(client, handle, forward.local_port)
        url = f"http://{HOST}:{forward.local_port}"
        print(f"TensorBoard: {url}", flush=True)
        message("forwarding until Ctrl-C")
        if not no_open and sys.stdout.isatty():
            with contextlib.suppress(webbrowser.Error):
                webbrowser.open(url)
        wait_for_interrupt()
    return CommandExitCode.OK


def _check(job: Job) -> None:
    """Raise CommandError for a job that has no TensorBoard, and gets none."""
    board = job.spec.get("tensorBoard")
    if board is None:
        raise CommandError(
            f"{job.name} has no TensorBoard: set spec.tensorBoard, also of a job that runs: kubectl patch tfdistjob "
            f'{job.name} -n {job.namespace} --type merge -p \'{{"spec": {{"tensorBoard": {{}}}}}}\''
        )
    if job.is_finished and job.status.tensor_board is None:
        raise CommandError(
            f"{job.name} has ended and its TensorBoard is deleted: raise spec.tensorBoard.ttlSecondsAfterFinished, now "
            f"{board.get('ttlSecondsAfterFinished', 3600)}, and the controller starts it again"
        )


def _ready_pod(client: Client, handle: JobHandle) -> ReplicaPod:
    pod = tensorboard_pod(client.api, handle.job)
    if pod is None or not pod.is_running:
        raise NotPossible(_state(handle.job, pod))
    return pod


def _await_answer(client: Client, handle: JobHandle, port: int) -> None:
    """Return once TensorBoard answers; report each state that it waits in."""
    timer = threading.Event()
    previous = ""
    while True:
        pod = tensorboard_pod(client.api, handle.job)
        if pod is not None and pod.is_running and _answers(port):
            return
        if (state := _state(handle.job, pod)) != previous:
            message(state)
            previous = state
        timer.wait(_PAUSE)
        _check(handle.refresh())


def _state(job: Job, pod: ReplicaPod | None) -> str:
    if pod is None:
        return f"the TensorBoard of {job.name} has no pod yet; tfdist events {job.name} shows why"
    if pod.is_running:
        return f"TensorBoard starts in pod {pod.name}"
    return f"pod {pod.name} of the TensorBoard is {pod.state}"


def _answers(port: int) -> bool:
    with contextlib.closing(http.client.HTTPConnection(HOST, port, timeout=_ANSWER_SECONDS)) as connection:
        try:
            connection.request("GET", "/")
            return connection.getresponse().status < http.client.BAD_REQUEST
        except (OSError, http.client.HTTPException):
            return False
