"""`runtime.network`: the variables of NCCL in the environment of the container `tensorflow`."""

import json
from typing import Any

import pytest
from support.factories import manifest
from support.local_plans import alone, prepared

from tfdist.contract import JOB_ENV
from tfdist.render.gang import gangs
from tfdist.render.installation import Installation
from tfdist.render.pod import Attempt, pod
from tfdist.validation import parse


def environment(network: dict[str, Any] | None, pod_defaults: dict[str, Any] | None = None, **spec: Any) -> Any:
    """Return the variables of a rendered worker by name; a source of a variable stands for its value."""
    runtime: dict[str, Any] = {} if network is None else {"runtime": {"network": network}}
    job = parse(manifest(**runtime, **spec))
    gang = gangs(job)[0]
    installation = Installation("tfdist/trainer:test", pod_defaults=pod_defaults or {})
    made = pod(job, gang, gang.members[0], Attempt(0, 0), installation)
    return {e["name"]: e.get("value", e.get("valueFrom")) for e in made["spec"]["containers"][0]["env"]}


def nccl(variables: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in variables.items() if name.startswith("NCCL_")}


@pytest.mark.parametrize(
    ("network", "variables"),
    [
        pytest.param(None, {}, id="unset"),
        pytest.param({}, {}, id="empty"),
        pytest.param({"debug": False}, {}, id="no debug"),
        pytest.param({"debug": True}, {"NCCL_DEBUG": "INFO"}, id="debug"),
        pytest.param({"interfaces": ["eth0"]}, {"NCCL_SOCKET_IFNAME": "=eth0"}, id="exactly one interface"),
        pytest.param({"interfaces": ["eth0", "ib1"]}, {"NCCL_SOCKET_IFNAME": "=eth0,ib1"}, id="two interfaces"),
    ],
)
def test_nccl_gets_its_interfaces_and_log_level_in_variables(network: Any, variables: dict[str, str]) -> None:
    assert nccl(environment(network)) == variables


@pytest.mark.parametrize(
    "own", [{"value": "ib"}, {"valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}], ids=["value", "source"]
)
def test_the_env_of_a_job_overrides_them(own: dict[str, Any]) -> None:
    variables = environment({"interfaces": ["eth0"]}, env=[{"name": "NCCL_SOCKET_IFNAME", **own}])
    assert [nccl(variables)] == [{"NCCL_SOCKET_IFNAME": value} for value in own.values()]


def test_they_override_the_variables_of_the_installation() -> None:
    env = [{"name": "NCCL_SOCKET_IFNAME", "value": "eth"}, {"name": "NCCL_DEBUG", "value": "WARN"}]
    defaults = {"spec": {"containers": [{"name": "tensorflow", "env": env}]}}
    variables = environment({"interfaces": ["ib0"]}, defaults)
    assert nccl(variables) == {"NCCL_SOCKET_IFNAME": "=ib0", "NCCL_DEBUG": "WARN"}


def test_the_settings_of_the_trainer_do_not_have_them_since_older_images_reject_unknown_ones() -> None:
    variables = environment({"debug": True})
    assert "network" not in json.loads(variables[JOB_ENV])["runtime"]


def test_a_process_of_a_local_run_has_them_too() -> None:
    made = prepared(alone(command=["train"], runtime={"network": {"interfaces": ["lo"], "debug": True}}))
    [only] = made.replicas.values()
    assert nccl(dict(only.environment)) == {"NCCL_SOCKET_IFNAME": "=lo", "NCCL_DEBUG": "INFO"}
