"""Replicas of real TensorFlow gangs that are killed from outside: who restarts, and who is named for it."""

from collections.abc import Iterator

import pytest
from support.api import Json
from support.e2e import Cluster, example
from support.failing_jobs import JobNamespace
from support.nodes import send_signal
from support.polling import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(420)]

GANG, ASYNCHRONOUS = "killed-gang", "killed-ps"

COUNTS = """
import json, os
import tensorflow as tf
attempt = json.loads(os.environ["TFDIST_JOB"])["attempt"]
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
while attempt == 0 or counter.numpy() < 100:
    coordinator.schedule(add)
    coordinator.join()
"""
"""Asynchronous steps: of the first attempt without end, of a later one a hundred."""


def _gang(name: str, **spec: object) -> Json:
    job = example(name, epochs=1000, model="mlp")
    del job["spec"]["evaluation"]
    job["spec"]["command"] = ["python", "-m", "tfdist_trainer"]  # as the bundled trainer, but without its launcher
    job["spec"] |= {"template": {"spec": {"terminationGracePeriodSeconds": 1}}} | spec
    return job


def _asynchronous() -> Json:
    job = _gang(ASYNCHRONOUS, strategy="ParameterServer", chief={}, ps={"replicas": 1}, worker={"replicas": 1})
    for field in ("training", "checkpoint", "volumes", "volumeMounts"):
        del job["spec"][field]
    environment = [{"name": "CUDA_VISIBLE_DEVICES", "value": ""}, {"name": "TF_CPP_MIN_LOG_LEVEL", "value": "2"}]
    job["spec"] |= {"command": ["python", "-c", COUNTS], "env": environment}
    return job


@pytest.fixture(scope="module")
def jobs(cluster: Cluster) -> Iterator[JobNamespace]:
    """All gangs started together, in the namespace where the data is."""
    jobs, names = JobNamespace(cluster), (GANG, ASYNCHRONOUS)
    for name in names:
        cluster.delete_job(name)
    jobs.start(_gang(GANG, chief={}, worker={"replicas": 1}), _asynchronous())
    yield jobs
    for name in names:
        cluster.delete_job(name)


def _replica(pods: list[Json], replica: str) -> Json:
    return next(p for p in pods if p["spec"]["hostname"] == replica)


@pytest.mark.long
@pytest.mark.parametrize(("attempt", "killed"), [(0, "worker-0"), (1, "chief-0")])
def test_a_killed_member_of_a_synchronous_gang_restarts_all_of_it(
    jobs: JobNamespace, attempt: int, killed: str
) -> None:
    pods = jobs.runs(GANG, attempt=attempt)
    _steps_move(jobs, GANG)
    send_signal(_replica(pods, killed), "KILL")
    following = jobs.runs(GANG, attempt=attempt + 1)
    assert sorted(p["spec"]["hostname"] for p in following) == ["chief-0", "worker-0"]
    cause = jobs.root_causes(GANG)[-1]
    assert f"{cause['role']}-{cause['index']}" == killed
    assert (cause["reason"], cause["exitCode"], cause["counted"]) == ("Crash", 137, True)
    assert jobs.printed(GANG)["RESTARTS"] == str(attempt + 1)
    jobs.await_description(GANG, f"{killed} (pod {cause['pod']}", "ended with exit code 137", "Warning Restarting")


def test_a_killed_worker_of_an_asynchronous_gang_is_replaced_alone(jobs: JobNamespace) -> None:
    pods = jobs.runs(ASYNCHRONOUS)
    send_signal(_replica(pods, "worker-0"), "KILL")

    def replaced() -> Json | None:
        successors = [p for p in jobs.cluster.pods(ASYNCHRONOUS) if p["metadata"]["name"].endswith("worker-0-r1")]
        return next((p for p in successors if p["status"]["phase"] == "Running"), None)

    wait_for("the worker's replacement", replaced)
    assert [c["reason"] for c in jobs.root_causes(ASYNCHRONOUS)] == ["Crash"]
    kept = {p["metadata"]["uid"] for p in jobs.cluster.pods(ASYNCHRONOUS) if p["status"]["phase"] == "Running"}
    assert {_replica(pods, name)["metadata"]["uid"] for name in ("chief-0", "ps-0")} <= kept


@pytest.mark.long
def test_a_killed_parameter_server_restarts_chief_servers_and_workers(jobs: JobNamespace) -> None:
    # given a gang whose worker may have been replaced before
    running = [pod for pod in jobs.cluster.pods(ASYNCHRONOUS) if pod["status"]["phase"] == "Running"]
    before = jobs.cluster.job(ASYNCHRONOUS)["status"].get("restarts", {}).get("counted", 0)
    # when
    send_signal(_replica(running, "ps-0"), "KILL")
    # then
    status = jobs.ended(ASYNCHRONOUS)
    assert status["phase"] == "Succeeded", status["summary"]
    names = {p["metadata"]["name"] for p in jobs.cluster.pods(ASYNCHRONOUS)}
    assert f"{ASYNCHRONOUS}-chief-0-r{before + 1}" in names
    cause = jobs.root_causes(ASYNCHRONOUS)[-1]
    assert (cause["role"], cause["reason"], cause["exitCode"]) == ("ps", "Crash", 137)
    assert jobs.printed(ASYNCHRONOUS)["RESTARTS"] == str(before + 1)


def _steps_move(jobs: JobNamespace, name: str) -> None:
    """Wait until a step of the present attempt has been reported."""

    def moves() -> bool:
        status = jobs.cluster.job(name)["status"]
        before = [f for f in status.get("failures", ()) if f["rootCause"]]
        reported = status.get("progress", {}).get("reportedAt", "")
        return bool(status.get("progress", {}).get("step")) and (not before or reported > before[-1]["time"])

    wait_for(f"steps of {name}", moves)
