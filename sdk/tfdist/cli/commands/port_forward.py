"""`tfdist port-forward` and `tfdist tensorboard`: ports of this machine that lead to a replica or to TensorBoard."""

import contextlib
import http.client
import sys
import threading
import webbrowser
from collections.abc import Sequence
from contextlib import ExitStack, closing
from typing import Annotated, Final

import typer

from tfdist.cli import completion
from tfdist.cli.command_line import command
from tfdist.cli.connection import ClusterOptions, attach_job
from tfdist.cli.errors import CommandError, CommandExitCode
from tfdist.cli.options import JobName
from tfdist.cli.output import message
from tfdist.client.client import Client
from tfdist.client.errors import NotPossible
from tfdist.client.job import Job
from tfdist.client.job_handle import JobHandle
from tfdist.client.port_forward import HOST, PortForward
from tfdist.client.replica_pods import ReplicaPod, is_replica, running_pod, tensorboard_pod
from tfdist.render.tensorboard import PORT

_HIGHEST_PORT = 65535

_PAUSE: Final = 1.0
_ANSWER_SECONDS: Final = 10.0


@command
def port_forward(
    connection: ClusterOptions,
    name: JobName,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[ROLE-INDEX] [LOCAL:]PORT",
            help="A replica, such as worker-1, then ports.",
            autocompletion=completion.replicas,
        ),
    ],
) -> int:
    """Forward ports of this machine to a replica, until Ctrl-C.

    8790 is the same port on both sides, 9000:8790 uses port 9000 here, and :8790 a free port, which is printed. Without
    ROLE-INDEX they lead to the replica that leads training, also after it has been restarted.

    Exits 0 after Ctrl-C, or 2 if a request fails or a port is in use.
    """
    client = connection.client()
    replica, ports = parse(words)
    handle = attach_job(client, name)
    first = running_pod(client.api, handle.job, replica)
    with ExitStack() as stack:
        for local, port in ports:
            forward = PortForward(
                client.api, lambda: running_pod(client.api, handle.refresh(), replica), port, local, report=message
            )
            stack.enter_context(closing(forward))
            print(f"{HOST}:{forward.local_port} -> {first.replica}:{port}", flush=True)
        message(f"forwarding to {first.replica} of {name} until Ctrl-C")
        wait_for_interrupt()
    return CommandExitCode.OK


def wait_for_interrupt() -> None:
    """Return after Ctrl-C."""
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        if sys.stderr.isatty():
            message("")  # the terminal shows ^C


def parse(words: Sequence[str]) -> tuple[str | None, list[tuple[int, int]]]:
    """Return the replica, if one is named, and pairs of a local port and a port of the pod.

    Raises:
        CommandError: a word is not a port, or there is no port.
    """
    replica = words[0] if words and is_replica(words[0]) else None
    ports = list(map(_pair, words[1:] if replica else words))
    if not ports:
        raise CommandError("give a port of the replica, such as 8790, or 9000:8790 with the local port first")
    return replica, ports


def _pair(word: str) -> tuple[int, int]:
    """Return the ports of `8790` (the same, locally), `9000:8790`, or `0:8790` and `:8790` (a free one, locally)."""
    local, colon, port = word.rpartition(":")
    numbers = [_number(local or "0" if colon else port), _number(port)]
    if None in numbers or numbers[1] == 0:
        raise CommandError(f"{word}: neither a port (8790, 9000:8790, :8790) nor a replica (worker-0)")
    return numbers[0] or 0, numbers[1] or 0


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and int(text) <= _HIGHEST_PORT else None


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
    handle = attach_job(client, name)
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
