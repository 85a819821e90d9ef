"""Strategy `Independent` on pods: workers ask the chief for their next trial, and one that fails restarts alone."""

from typing import Final

import pytest
from support.api import Json
from support.e2e import Cluster
from support.polling import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.long, pytest.mark.timeout(900)]

NAME: Final = "independent"
TRIALS: Final = 6
SCRIPT: Final = f"""
import json
import os
import time
import xmlrpc.client
import xmlrpc.server

job = json.loads(os.environ["TFDIST_JOB"])
host, port = job["addresses"]["chief"][0].rsplit(":", 1)
assert "TF_CONFIG" not in os.environ
if job["role"] == "chief":
    left = set(range({TRIALS}))

    def next_trial(worker):
        return next((trial for trial in left if (trial == 0) == (worker == 0)), -1)  # trial 0 is for worker 0

    server = xmlrpc.server.SimpleXMLRPCServer(("0.0.0.0", int(port)), logRequests=False, allow_none=True)
    server.register_function(next_trial)
    server.register_function(left.discard, "finish")
    while left:
        server.handle_request()
else:
    chief = xmlrpc.client.ServerProxy(f"http://{{host}}:{{port}}", allow_none=True)
    while True:
        try:
            trial = chief.next_trial(job["index"])
            if trial == 0 and job["attempt"] == 0:
                raise SystemExit("the first trial of this worker fails")
            if trial >= 0:
                chief.finish(trial)
        except OSError:
            pass  # the chief has not started, or has ended
        time.sleep(0.5)
"""


def test_a_worker_that_fails_restarts_alone_and_the_success_of_the_chief_ends_the_job(cluster: Cluster) -> None:
    # given
    cluster.delete_job(NAME)
    metadata = {"name": NAME, "namespace": cluster.namespace}
    cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"search.py": SCRIPT}})
    spec: Json = {
        "strategy": "Independent",
        "chief": {},
        "worker": {"replicas": 2},
        "training": {"script": "search.py", "source": {"configMap": {"name": NAME}}},
        "runPolicy": {"cleanPodPolicy": "None"},
        "resources": {"requests": {"cpu": "50m", "memory": "100Mi"}},
    }
    # when
    applied = cluster.apply({"apiVersion": "tfdist.dev/v1", "kind": "TFDistJob", "metadata": metadata, "spec": spec})
    assert "created" in applied
    wait_for("the job to end", lambda: cluster.job(NAME)["status"].get("phase") in {"Succeeded", "Failed"}, 300)
    # then
    status = cluster.job(NAME)["status"]
    assert (status["phase"], status["restarts"]["counted"]) == ("Succeeded", 1), status
    pods = {pod["metadata"]["name"] for pod in cluster.pods(NAME)}
    assert pods == {f"{NAME}-chief-0", f"{NAME}-worker-0", f"{NAME}-worker-0-r1", f"{NAME}-worker-1"}
