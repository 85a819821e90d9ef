"""`tfdist stacks JOB [ROLE-INDEX]`: the current Python stacks of the replicas."""

from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Final

import typer

from tfdist.cli.command_line import command
from tfdist.cli.connection import ClusterOptions, attach_job
from tfdist.cli.errors import CommandExitCode
from tfdist.cli.options import JobName, replica_argument
from tfdist.cli.output import message
from tfdist.client.errors import ClientError, NotPossible
from tfdist.client.port_forward import stacks as read_stacks
from tfdist.client.replica_pods import current_pods, replica_pod
from tfdist.contract import REPORT_PORT

_PARALLEL: Final = 16


@command
def stacks(
    connection: ClusterOptions,
    name: JobName,
    replica: Annotated[str | None, replica_argument("Such as worker-1; default: all replicas.")] = None,
    *,
    wait: Annotated[float, typer.Option(min=0.1, metavar="SECONDS", help="How long to wait for a replica.")] = 10.0,
) -> int:
    """Print the current Python stacks of the replicas.

    Exits 0, or 1 if no replica returned its stacks, 2 if a request fails.
    """
    client = connection.client()
    job = attach_job(client, name).job
    pods = [replica_pod(client.api, job, replica)] if replica else current_pods(client.api, job)
    if not pods:
        raise NotPossible(f"{name} has no pods: it is {job.phase}{f': {job.message}' if job.message else ''}")
    count = 0
    with ThreadPoolExecutor(_PARALLEL) as pool:
        answers = [(pod, pool.submit(read_stacks, client.api, pod, wait)) for pod in pods]
        try:
            for pod, answer in answers:
                try:
                    text = answer.result()
                except ClientError as error:
                    message(f"{pod.replica} {error}")
                    continue
                print(f"== {pod.replica} (pod {pod.name}, port {REPORT_PORT})\n{text}\n", flush=True)
                count += 1
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return CommandExitCode.OK if count else CommandExitCode.NEGATIVE
