"""`tfdist stacks JOB [ROLE-INDEX]`: the Python stacks of the replicas now."""

from concurrent.futures import ThreadPoolExecutor
from typing import Final

from tfdist.cli.exit_code import ExitCode
from tfdist.cli.find import attach
from tfdist.cli.output import message
from tfdist.client.client import Client
from tfdist.client.errors import ClientError, NotPossible
from tfdist.client.replica_pods import current_pods, replica_pod
from tfdist.client.stacks import stacks
from tfdist.contract import REPORT_PORT

_PARALLEL: Final = 16


def execute(client: Client, name: str, replica: str | None, *, wait: float) -> int:
    """Print the stacks of a job's replicas and return the exit code: 1 if none has given any."""
    job = attach(client, name).job
    pods = [replica_pod(client.api, job, replica)] if replica else current_pods(client.api, job)
    if not pods:
        raise NotPossible(f"{name} has no pods: it is {job.phase}{f': {job.message}' if job.message else ''}")
    count = 0
    with ThreadPoolExecutor(_PARALLEL) as pool:
        answers = [(pod, pool.submit(stacks, client.api, pod, wait)) for pod in pods]
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
    return ExitCode.OK if count else ExitCode.NEGATIVE
