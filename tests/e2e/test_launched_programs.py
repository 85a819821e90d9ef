"""Programs other than the bundled trainer under `tfdist-launch` on pods: any command, and TensorFlow's servers."""

from collections.abc import Iterator
from typing import Any, Final

import pytest
from support.api import Json
from support.e2e import Cluster
from support.failing_jobs import JobNamespace, own_namespace, small_job
from support.nodes import signal_program
from support.polling import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(420)]

SHELL: Final = 'echo "round $TFDIST_ROUND"; [ "$TFDIST_ROUND" -gt 0 ] || sleep 1000'
"""Runs for ever in round 0, and succeeds in any later one."""

COUNTS: Final = """
import os
import tensorflow as tf
resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
if resolver.task_type != "chief":
    server = tf.distribute.Server(
        resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id, protocol="grpc"
    )
    server.join()
strategy = tf.distribute.ParameterServerStrategy(resolver)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
with strategy.scope():
    counter = tf.Variable(0)
add = tf.function(lambda: counter.assign_add(1))
print("counting", flush=True)
while os.environ["TFDIST_ROUND"] == "0" or counter.numpy() < 100:
    coordinator.schedule(add)
    coordinator.join()
"""
"""Asynchronous steps: in the first round without end, in a later one a hundred."""

HOLDS: Final = """
import os
import pathlib
import sys
import time
late = any("tfdist-launch" in word for word in sys.orig_argv) and os.uname().nodename.endswith("worker-1")
while late and not pathlib.Path("/tmp/go").exists():
    time.sleep(0.05)
"""
"""What the interpreter imports first: it keeps the launcher of worker 1 from beginning."""


@pytest.fixture
def jobs(cluster: Cluster) -> Iterator[JobNamespace]:
    with own_namespace(cluster, "launched") as jobs:
        yield jobs


def uids(jobs: JobNamespace, job: str) -> dict[str, str]:
    return {pod["spec"]["hostname"]: pod["metadata"]["uid"] for pod in jobs.cluster.pods(job)}


def replica(jobs: JobNamespace, job: str, name: str) -> Json:
    return next(pod for pod in jobs.cluster.pods(job) if pod["spec"]["hostname"] == name)


def launched(name: str, command: list[str], **spec: Any) -> Json:
    job = small_job(name, "", **spec)
    job["spec"]["command"] = ["tfdist-launch", "--", *command]
    job["spec"]["resources"] = {"requests": {"cpu": "50m", "memory": "200Mi"}}
    return job


def with_file(job: Json, name: str, text: str) -> tuple[Json, Json]:
    """Return a ConfigMap with a file, and the job with it in the folder /code."""
    files = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "code"}, "data": {name: text}}
    job["spec"] |= {
        "volumes": [{"name": "code", "configMap": {"name": "code"}}],
        "volumeMounts": [{"name": "code", "mountPath": "/code", "readOnly": True}],
    }
    return files, job


@pytest.mark.long
def test_launchers_that_wait_for_each_other_to_begin_restart_nothing(jobs: JobNamespace) -> None:
    python_path = [{"name": "PYTHONPATH", "value": "/code"}]
    job = launched("meets", ["true"], replicas=2, env=python_path)
    jobs.start(*with_file(job, "sitecustomize.py", HOLDS))
    jobs.runs("meets")
    waits = jobs.await_description("meets", "their launchers wait: worker-1: its launcher is not connected")
    assert "Restarting" not in waits
    late = replica(jobs, "meets", "worker-1")["metadata"]["name"]
    jobs.cluster.kubectl.run("exec", f"--namespace={jobs.cluster.namespace}", late, "--", "touch", "/tmp/go")
    status = jobs.ended("meets")
    assert (status["phase"], status["restarts"]["counted"]) == ("Succeeded", 0)
    assert "Restarting" not in {condition["type"] for condition in status["conditions"]}


@pytest.mark.long
def test_a_program_that_is_not_python_is_started_again_in_its_pod(jobs: JobNamespace) -> None:
    jobs.start(launched("shell", ["sh", "-c", SHELL], replicas=2))
    jobs.runs("shell")
    pods = uids(jobs, "shell")
    signal_program(replica(jobs, "shell", "worker-1"), "KILL")
    status = jobs.ended("shell")
    assert (status["phase"], status["restarts"]["counted"]) == ("Succeeded", 1)
    (cause,) = jobs.root_causes("shell")
    assert (cause["role"], cause["index"], cause["reason"], cause["exitCode"]) == ("worker", 1, "Crash", 137)
    assert uids(jobs, "shell") == pods


def test_a_script_with_servers_of_its_own_loses_a_worker_and_then_its_parameter_server(jobs: JobNamespace) -> None:
    without_gpu = [{"name": "CUDA_VISIBLE_DEVICES", "value": ""}]
    job = launched(
        "counts",
        ["python", "/code/counts.py"],
        strategy="ParameterServer",
        chief={},
        ps={"replicas": 1},
        env=without_gpu,
    )
    jobs.start(*with_file(job, "counts.py", COUNTS))
    jobs.runs("counts")
    chief, pods = replica(jobs, "counts", "chief-0")["metadata"]["name"], uids(jobs, "counts")
    logs = ("logs", f"--namespace={jobs.cluster.namespace}", chief)
    wait_for("the chief to count", lambda: "counting" in jobs.cluster.kubectl.run(*logs))

    signal_program(replica(jobs, "counts", "worker-0"), "KILL")
    wait_for("the worker's failure", lambda: len(jobs.root_causes("counts")) == 1)
    assert jobs.cluster.kubectl.run(*logs).count("counting") == 1, "a lost worker alone is started again"

    signal_program(replica(jobs, "counts", "ps-0"), "KILL")
    status = jobs.ended("counts")
    assert status["phase"] == "Succeeded", status["summary"]
    causes = [(f["role"], f["index"], f["reason"]) for f in jobs.root_causes("counts")]
    assert causes == [("worker", 0, "Crash"), ("ps", 0, "Crash")]
    assert uids(jobs, "counts") == pods
