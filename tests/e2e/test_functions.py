"""Functions on real pods: what they return, after a killed worker too, and a map whose notebook is closed."""

import os
import pathlib
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator

import pytest
from support.e2e import Cluster
from support.functions import train_on_pods
from support.nodes import signal_program
from support.polling import wait_for

import tfdist

pytestmark = [pytest.mark.e2e, pytest.mark.long, pytest.mark.timeout(900)]

SECONDS = 600.0
NOTEBOOK = """
    import sys
    import time

    import tfdist
    from support.functions import train_on_pods

    sets = [{"number": number, "seconds": 5.0} for number in range(4)]
    train_on_pods.map(sets, parallelism=2, name="mapped", client=tfdist.Client(namespace=sys.argv[1]))
    print("mapped", flush=True)
    time.sleep(3600)  # as a notebook that waits
"""


@pytest.fixture
def client(cluster: Cluster) -> Iterator[tfdist.Client]:
    found = tfdist.Client(kubeconfig=cluster.kubectl.kubeconfig, namespace=cluster.namespace)
    yield found
    for sweep in found.sweeps.list():
        found.sweeps.delete(sweep.name)


def test_a_function_returns_its_value_after_a_killed_worker(cluster: Cluster, client: tfdist.Client) -> None:
    """Given a function on two workers; when a worker's process is killed, then the value is that of the second run."""
    handle = train_on_pods.submit(7, seconds=30.0, client=client)
    wait_for("the first call", lambda: any("call of 7" in line.text for line in handle.logs("worker", 1)), SECONDS)

    pod = next(pod for pod in cluster.pods(handle.name) if pod["metadata"]["labels"]["tfdist.dev/index"] == "1")
    signal_program(pod, "KILL")

    result = handle.result(timeout=SECONDS)
    assert result["number"] == 7
    assert result["worker"] == 0
    restarts = handle.job.status.restarts
    assert restarts is not None
    assert restarts.counted + restarts.uncounted == 1
    handle.delete()


def test_a_map_goes_on_when_its_notebook_is_killed_and_another_process_has_the_results(
    cluster: Cluster, client: tfdist.Client, tmp_path: pathlib.Path
) -> None:
    """Given a process that has mapped a function; when it is killed, then all jobs end, and the values are here."""
    environment = os.environ | {"KUBECONFIG": cluster.kubectl.kubeconfig}
    environment["PYTHONPATH"] = os.pathsep.join([str(pathlib.Path(__file__).parents[1]), *sys.path])
    script = tmp_path / "notebook.py"
    script.write_text(textwrap.dedent(NOTEBOOK))
    command = [sys.executable, str(script), cluster.namespace]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as notebook:
        assert notebook.stdout is not None
        assert notebook.stdout.readline() == "mapped\n"
        notebook.send_signal(signal.SIGKILL)

    trials = client.sweeps.attach("mapped").wait(timeout=SECONDS)

    assert [trial.result["number"] for trial in trials] == [0, 1, 2, 3]
