"""`TF_CONFIG` of a TFJob, case by case, for a job that was converted from a TFJob.

The numbers of the cases are those of `docs/tfjob-differences.md`. In all of them the address of a replica is
`<role>-<index>.<job>.<namespace>.svc`, and there is no `environment`, which only TensorFlow 1's Estimator read.
"""

import json
from typing import Any

import pytest
from support.tfjobs import IMAGE, replica, tfjob

from tfdist.convert import CannotConvert, convert
from tfdist.desired.objects import objects
from tfdist.validation import parse

Json = dict[str, Any]


def pods(types: Json, domain: str = "", namespace: str = "team", **fields: Any) -> dict[str, Json]:
    """Return the pods of a converted TFJob by host name."""
    given = tfjob(types, **fields)
    given["metadata"]["namespace"] = namespace
    rendered = objects(parse(convert(given).manifest), IMAGE, cluster_domain=domain)
    return {o["spec"]["hostname"]: o for o in rendered if o["kind"] == "Pod"}


def text(pod: Json, container: str = "tensorflow") -> str | None:
    """Return the TF_CONFIG of a pod's container, or None if it has none."""
    (found,) = (c for c in pod["spec"]["containers"] if c["name"] == container)
    return next((v["value"] for v in found.get("env", ()) if v["name"] == "TF_CONFIG"), None)


def config(pod: Json) -> Json:
    found: Json = json.loads(text(pod) or "{}")
    return found


@pytest.mark.parametrize("domain", ["", "tf.training.org"])
def test_c28_a_single_worker_gets_none(domain: str) -> None:
    assert text(pods({"Worker": replica(1)}, domain)["worker-0"]) is None


def test_c29_worker_and_ps_are_in_the_cluster_spec_with_the_domain_of_the_cluster() -> None:
    types = {"Worker": replica(1), "PS": replica(1)}
    assert text(pods(types, "tf.training.org", "ns2", name="test-tfjob")["worker-0"]) == (
        '{"cluster":{"ps":["ps-0.test-tfjob.ns2.svc.tf.training.org:2222"],'
        '"worker":["worker-0.test-tfjob.ns2.svc.tf.training.org:2222"]},"task":{"index":0,"type":"worker"}}'
    )


def test_c30_an_evaluator_is_only_in_its_own_cluster_spec() -> None:
    # the training operator adds it to the cluster spec of every replica, and TensorFlow waits for a server that an
    # evaluator does not start
    types = {"Worker": replica(1), "PS": replica(1), "Evaluator": replica(1)}
    made = pods(types, "", "ns3", name="test-tfjob")
    assert text(made["worker-0"]) == (
        '{"cluster":{"ps":["ps-0.test-tfjob.ns3.svc:2222"],"worker":["worker-0.test-tfjob.ns3.svc:2222"]},'
        '"task":{"index":0,"type":"worker"}}'
    )
    assert config(made["evaluator-0"])["cluster"]["evaluator"] == ["evaluator-0.test-tfjob.ns3.svc:2222"]


def test_c31_only_a_distributed_job_gets_tf_config() -> None:
    assert text(pods({"Worker": replica(1)})["worker-0"]) is None
    assert text(pods({"Chief": replica(1)})["chief-0"]) is None
    assert text(pods({"Worker": replica(1), "PS": replica(1)})["worker-0"]) is not None
    assert text(pods({"Chief": replica(1), "Worker": replica(1)})["chief-0"]) is not None


def test_c31_parameter_servers_alone_are_rejected() -> None:
    # the training operator runs them for ever: only a chief or worker can end a job
    with pytest.raises(CannotConvert, match="a Chief or Worker is required"):
        convert(tfjob({"PS": replica(1)}))


def test_c32_each_dynamic_worker_gets_the_whole_cluster_spec() -> None:
    # the training operator gives each worker a cluster spec of itself and the ps alone, a form that TensorFlow 2 does
    # not read; TFDist changes the number of workers by a restart from the last checkpoint with a new cluster spec
    made = pods({"Worker": replica(2), "PS": replica(2)}, enableDynamicWorker=True)
    sizes = {name: {role: len(members) for role, members in config(p)["cluster"].items()} for name, p in made.items()}
    assert sizes == {name: {"worker": 2, "ps": 2} for name in ("worker-0", "worker-1", "ps-0", "ps-1")}


def test_c33_the_chief_gets_the_task_chief_and_the_addresses_of_all_workers() -> None:
    made = pods({"Chief": replica(1), "Worker": replica(2), "PS": replica(1), "Evaluator": replica(1)})
    chief = config(made["chief-0"])
    assert chief["task"] == {"type": "chief", "index": 0}
    assert len(chief["cluster"]["chief"]) + len(chief["cluster"]["worker"]) == 3
    for name, pod in made.items():
        parsed = config(pod)
        own = parsed["cluster"][parsed["task"]["type"]][parsed["task"]["index"]]
        assert own == f"{name}.fashion.team.svc:2222"


def test_c33_an_evaluator_gets_its_task_and_the_addresses_of_training() -> None:
    # Estimator removes the cluster of an evaluator; a TensorFlow 2 program makes a cluster of that one task
    made = pods({"Chief": replica(1), "Worker": replica(2), "Evaluator": replica(1)})
    parsed = config(made["evaluator-0"])
    assert parsed["task"] == {"type": "evaluator", "index": 0}
    assert {role: len(members) for role, members in parsed["cluster"].items()} == {
        "chief": 1,
        "worker": 2,
        "evaluator": 1,
    }


def test_c34_addresses_have_the_port_of_their_replica_type() -> None:
    port = [{"name": "tfjob-port", "containerPort": 3333}]
    made = pods({"Worker": replica(1), "PS": replica(1, ports=port)})
    assert config(made["worker-0"])["cluster"] == {
        "worker": ["worker-0.fashion.team.svc:2222"],
        "ps": ["ps-0.fashion.team.svc:3333"],
    }
    assert {"name": "tfdist-port", "containerPort": 3333} in made["ps-0"]["spec"]["containers"][0]["ports"]


def test_c35_only_the_container_tensorflow_gets_tf_config() -> None:
    worker = replica(2)
    worker["template"]["spec"]["containers"].insert(0, {"name": "proxy", "image": "proxy:1"})
    made = pods({"Worker": worker})["worker-0"]
    assert text(made) is not None
    assert text(made, "proxy") is None


def test_c35_a_tf_config_of_the_template_is_replaced() -> None:
    # the training operator keeps both variables; the later one, its own, is effective
    env = [{"name": "TF_CONFIG", "value": "mine"}]
    assert "mine" not in (text(pods({"Worker": replica(2, env=env)})["worker-0"]) or "")
