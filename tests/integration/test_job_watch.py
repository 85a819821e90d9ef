"""kopf's watch of the jobs on a real API server: no job, however it is nested, holds up another."""

import json
import pathlib
import signal

import pytest
from support.api import JOBS, Api, Json
from support.controller import controller as run_controller
from support.factories import manifest
from support.polling import WAIT_SECONDS, wait_for

pytestmark = pytest.mark.integration

LEVELS = 1100
"""More than orjson and Python's json read, fewer than the API server does."""


def nested(levels: int) -> str:
    return '{"a":' * levels + "1" + "}" * levels


def new(name: str, namespace: str) -> Json:
    made = manifest(name, namespace, worker={"replicas": 1})
    del made["metadata"]["uid"]
    return made


def post_text(api: Api, namespace: str, made: Json, deep: str) -> None:
    """POST a job in which `deep` is written in place of the text `DEEP`."""
    answer = api.post_text(JOBS.format(ns=namespace), json.dumps(made).replace('"DEEP"', deep))
    assert answer.status_code == 201, answer.text[:1000]


def phase(api: Api, namespace: str, name: str) -> str:
    # the server's table has the phase and not the nested content
    answer = api.send("GET", f"{JOBS.format(ns=namespace)}/{name}")
    text = answer.text
    return next((p for p in ("Invalid", "Running", "Pending") if f'"phase":"{p}"' in text), "")


@pytest.mark.long
def test_deeply_nested_jobs_are_invalid_and_others_run(api: Api, namespace: str, tmp_path: pathlib.Path) -> None:
    in_config = new("in-config", namespace)
    in_config["spec"]["training"]["config"] = {"deep": "DEEP"}
    in_template = new("in-template", namespace)
    in_template["spec"]["worker"]["template"] = {"spec": {"affinity": "DEEP"}}
    settings = {"TFDIST_NAMESPACE": namespace, "TFDIST_LEADER_ELECTION": "true"}
    with run_controller(api, tmp_path / "first", HOSTNAME="first", **settings) as leader:
        wait_for("a leader", leader.leads)
        with run_controller(api, tmp_path / "second", HOSTNAME="second", **settings) as standby:
            for made in (in_config, in_template):
                post_text(api, namespace, made, nested(LEVELS))
            wait_for("the nested configuration to be invalid", lambda: phase(api, namespace, "in-config") == "Invalid")
            wait_for("the nested template to be invalid", lambda: phase(api, namespace, "in-template") == "Invalid")
            api.create_job(new("after", namespace))
            wait_for("another job to run", lambda: phase(api, namespace, "after") == "Running")
            assert leader.ready()
            assert standby.ready()
            leader.process.send_signal(signal.SIGTERM)
            assert leader.process.wait(timeout=WAIT_SECONDS) == 0
            wait_for("the standby to lead", standby.leads)
    with run_controller(api, tmp_path / "again", HOSTNAME="again", **settings) as again:
        wait_for("a leader that started with the nested jobs there", again.leads)
        api.create_job(new("last", namespace))
        wait_for("a last job to run", lambda: phase(api, namespace, "last") == "Running")
