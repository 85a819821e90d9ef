"""Commands for the jobs of a cluster: `wait`."""

from typing import Annotated, Final

import typer

from tfdist.cli.cluster import connect
from tfdist.cli.options import Context, JobName, Kubeconfig, Namespace

jobs: Final = typer.Typer()


@jobs.command()
def wait(
    name: JobName,
    *,
    phase: Annotated[
        str, typer.Option("--for", metavar="PHASE", help="Phase to wait for; by default the end of the job.")
    ] = "",
    timeout: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Such as 90s, 10m or 1h; by default without end.")
    ] = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> int:
    """Wait until a job has ended, or has a phase.

    Exit code: that of the job, as of `tfdist run`; 0 if the job has the phase; 124 after the timeout; 2 if a request
    failed.
    """
    from tfdist.cli.commands import wait as command  # noqa: PLC0415  imported on demand

    return command.execute(connect(namespace, context, kubeconfig), name, phase=phase, timeout=timeout)
