"""Members of a gang connect directly, whatever proxy the job, the image or the user's shell sets."""

from typing import Any

import pytest
from support.factories import manifest

from tfdist.contract import LAUNCH_KEY_ENV
from tfdist.local.env import EnvSources, container_env, without_proxies
from tfdist.render.gang import gangs
from tfdist.render.installation import Installation
from tfdist.render.pod import Attempt, pod
from tfdist.validation import parse

MEMBERS = ".fashion.team.svc,localhost,127.0.0.1"
PROXY = {"name": "http_proxy", "value": "http://192.0.2.1:3128"}


def rendered(installation: Installation | None = None, **spec: Any) -> dict[str, Any]:
    job = parse(manifest(**spec))
    gang = gangs(job)[0]
    return pod(job, gang, gang.members[0], Attempt(0, 0), installation or Installation("image"))


def environment_in_a_pod(made: dict[str, Any], **config_map: str) -> dict[str, str]:
    """Return the variables that the kubelet makes; `config_map` is the content of the ConfigMap `proxy`."""
    sources = EnvSources(made, "node", {"proxy": {"data": config_map}}, {LAUNCH_KEY_ENV: "key"})
    values, problems = container_env(made["spec"]["containers"][0], sources)
    assert not problems
    return values


@pytest.mark.parametrize("env", [[], [PROXY], [{"name": "HTTPS_PROXY", "value": "http://192.0.2.1:3128"}]])
def test_the_domain_of_the_members_is_excluded_whether_or_not_a_proxy_is_known(env: list[dict[str, Any]]) -> None:
    values = environment_in_a_pod(rendered(env=env))
    assert values["no_grpc_proxy"] == MEMBERS
    assert "no_proxy" not in values, "that of an image would be lost"


@pytest.mark.parametrize(
    ("env", "excluded"),
    [
        ([{"name": "no_proxy", "value": "10.0.0.0/8,fd00::/8"}], f"10.0.0.0/8,fd00::/8,{MEMBERS}"),
        ([{"name": "no_proxy", "value": "*"}], f"*,{MEMBERS}"),
        ([{"name": "NO_PROXY", "value": "a"}], MEMBERS),  # gRPC does not read it
        ([{"name": "no_grpc_proxy", "value": "b"}, {"name": "no_proxy", "value": "a"}], f"b,{MEMBERS}"),
        ([{"name": "no_proxy", "value": "a$(SUFFIX)"}], f"a$(SUFFIX),{MEMBERS}"),
        ([{"name": "no_proxy", "value": "[fd00::1],fd00::/8"}], f"[fd00::1],fd00::/8,{MEMBERS}"),
        ([{"name": "no_proxy", "value": ""}], MEMBERS),
        (
            [{"name": "no_proxy", "valueFrom": {"configMapKeyRef": {"name": "proxy", "key": "hosts"}}}],
            f"internal.example,{MEMBERS}",
        ),
    ],
)
def test_what_the_job_excludes_stays_excluded(env: list[dict[str, Any]], excluded: str) -> None:
    values = environment_in_a_pod(rendered(env=[PROXY, *env]), hosts="internal.example")
    assert values["no_grpc_proxy"] == excluded


def test_what_a_config_map_excludes_stays_excluded() -> None:
    made = rendered(envFrom=[{"configMapRef": {"name": "proxy"}}])
    values = environment_in_a_pod(made, http_proxy=PROXY["value"], no_proxy="internal.example")
    assert values["no_grpc_proxy"] == f"internal.example,{MEMBERS}"
    assert values["no_proxy"] == "internal.example"


def test_a_value_taken_whole_from_another_object_is_kept() -> None:
    own = {"name": "no_grpc_proxy", "valueFrom": {"configMapKeyRef": {"name": "proxy", "key": "hosts"}}}
    assert environment_in_a_pod(rendered(env=[own]), hosts="mine")["no_grpc_proxy"] == "mine"


def test_the_cluster_domain_belongs_to_the_names() -> None:
    values = environment_in_a_pod(rendered(Installation("image", cluster_domain="cluster.local")))
    assert values["no_grpc_proxy"].startswith(".fashion.team.svc.cluster.local,")


def test_only_the_container_that_trains_gets_the_variable() -> None:
    sidecar = {"name": "sidecar", "image": "x"}
    made = rendered(template={"spec": {"containers": [sidecar]}})
    [found] = [container for container in made["spec"]["containers"] if container["name"] == "sidecar"]
    assert "env" not in found


@pytest.mark.parametrize("worker", [{"replicas": 1}])
def test_a_single_replica_has_no_members_to_connect_to(worker: dict[str, Any]) -> None:
    assert "no_grpc_proxy" not in environment_in_a_pod(rendered(worker=worker))


LOOPBACK = "127.0.0.1,localhost,::1"


@pytest.mark.parametrize(
    ("environ", "no_proxy", "no_grpc_proxy"),
    [
        ({}, LOOPBACK, LOOPBACK),
        ({"no_proxy": "a, .b"}, f"a,.b,{LOOPBACK}", f"a,.b,{LOOPBACK}"),
        ({"NO_PROXY": "a"}, f"a,{LOOPBACK}", f"a,{LOOPBACK}"),
        ({"no_proxy": "a,b", "NO_PROXY": "b,c"}, f"a,b,c,{LOOPBACK}", f"a,b,c,{LOOPBACK}"),
        ({"no_proxy": "localhost,[::1],fd00::/8"}, "localhost,[::1],fd00::/8,127.0.0.1,::1", None),
        ({"no_proxy": "*"}, "*", f"*,{LOOPBACK}"),
        ({"NO_PROXY": "*"}, "*", f"*,{LOOPBACK}"),
        ({"no_grpc_proxy": "g", "no_proxy": "a"}, f"a,{LOOPBACK}", f"g,a,{LOOPBACK}"),
        ({"no_proxy": ""}, LOOPBACK, LOOPBACK),
        ({"http_proxy": "http://[fd00::1]:3128", "no_proxy": "[fd00::2]"}, f"[fd00::2],{LOOPBACK}", None),
        ({"grpc_proxy": "http://192.0.2.1:3128"}, LOOPBACK, LOOPBACK),
        ({"no_proxy": "a,,b, "}, f"a,b,{LOOPBACK}", f"a,b,{LOOPBACK}"),
    ],
)
def test_processes_of_a_local_run_connect_directly(
    environ: dict[str, str], no_proxy: str, no_grpc_proxy: str | None
) -> None:
    proxies = {"http_proxy": "http://192.0.2.1:3128", "ALL_PROXY": "http://192.0.2.1:3128"}
    proxies |= {name: value for name, value in environ.items() if name in {"http_proxy", "grpc_proxy"}}
    values = without_proxies(proxies | environ)
    assert (values["no_proxy"], values["NO_PROXY"]) == (no_proxy, no_proxy)
    assert values["no_grpc_proxy"] == (no_grpc_proxy or no_proxy)
    assert values | proxies == values, "proxies stay set for other hosts"
