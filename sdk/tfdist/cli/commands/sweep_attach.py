"""`tfdist sweep attach|wait SWEEP`: follows a sweep to its end, or waits for it; the sweep does not depend on it."""

from tfdist.cli.commands.wait import seconds
from tfdist.cli.exit_code import ExitCode
from tfdist.cli.find import attach_sweep, command
from tfdist.cli.output import message, one_line
from tfdist.client.client import Client
from tfdist.client.errors import WaitTimeout
from tfdist.client.sweep import Sweep
from tfdist.client.sweeps import SweepHandle
from tfdist.printable import printable


def execute(client: Client, name: str) -> int:
    """Follow a sweep and return its exit code, or 130 after Ctrl-C.

    Raises:
        CommandError: there is no such sweep.
        ClientError: a request failed, or the sweep was deleted.
    """
    handle = attach_sweep(client, name)
    try:
        _follow(handle)
    except KeyboardInterrupt:
        message(f"detached; {handle.name} goes on. Attach again: {command(client, 'sweep', 'attach', handle.name)}")
        return ExitCode.INTERRUPTED
    message(f"results: {command(client, 'sweep', 'results', handle.name)}")
    return handle.sweep.exit_code


def wait(client: Client, name: str, *, timeout: str | None) -> int:
    """Wait for the end of a sweep and return its exit code, or 124 after the timeout.

    Raises:
        CommandError: there is no such sweep, or the timeout is malformed.
        ClientError: a request failed, or the sweep was deleted.
    """
    limit = None if timeout is None else seconds(timeout)
    handle = attach_sweep(client, name)
    try:
        sweep = handle.wait_finished(limit)
    except WaitTimeout as error:
        message(error)
        return ExitCode.TIMEOUT
    message(f"{sweep.name} {_headline(sweep)}")
    return sweep.exit_code


def _follow(handle: SweepHandle) -> None:
    previous = ""
    for sweep in handle.watch():
        headline = _headline(sweep)
        if headline != previous:
            print(f"{sweep.name} {headline}", flush=True)
            previous = headline
        if sweep.is_finished:
            return


def _headline(sweep: Sweep) -> str:
    """Return the phase of a sweep, and its reason: while it runs, the best trial and the number of trials."""
    return f"{sweep.phase}: {one_line(printable(sweep.message))}" if sweep.message else str(sweep.phase)
