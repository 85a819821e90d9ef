"""A user's errors: each is rejected or reported with its field, and affects no other job."""

import pytest
from support.e2e import Cluster, example

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]


@pytest.mark.parametrize(
    ("what", "change", "message"),
    [
        ("a typo", {"wroker": {"replicas": 2}}, 'unknown field "spec.wroker"'),
        ("an unknown strategy", {"strategy": "Mirored"}, "spec.strategy: Unsupported value"),
        ("no worker", {"worker": {"replicas": 0}}, "spec.worker.replicas"),
    ],
)
def test_an_error_in_the_manifest_is_rejected_by_kubectl(
    cluster: Cluster, what: str, change: dict[str, object], message: str
) -> None:
    bad = example("error")
    bad["spec"] |= change
    assert message in cluster.apply(bad), what


def test_a_missing_image_is_reported_with_its_field_while_another_job_runs_on(cluster: Cluster) -> None:
    bad = example("no-image")
    bad["spec"]["image"] = "localhost/no-such-image:1"
    # the namespace enforces it, and a job with its own image must set it
    restricted = {"capabilities": {"drop": ["ALL"]}}
    bad["spec"]["template"] = {
        "spec": {
            "securityContext": {"runAsNonRoot": True},
            "containers": [{"name": "tensorflow", "securityContext": restricted}],
        }
    }
    bad["spec"]["worker"] = {"replicas": 1}
    good = example("good-one", epochs=1)
    try:
        cluster.apply(bad)
        cluster.apply(good)
        condition = cluster.await_condition("no-image", "PodsReady", "ImageError", 120)
        assert condition["message"].startswith("spec.image: worker-0 cannot start")
        assert "localhost/no-such-image:1" in condition["message"]
        cluster.await_condition("good-one", "Succeeded", "Succeeded", 300)
    finally:
        cluster.delete_job("no-image")
        cluster.delete_job("good-one")


def test_an_error_in_the_programs_settings_makes_the_job_invalid_before_it_has_pods(cluster: Cluster) -> None:
    try:
        cluster.apply(example("bad-config", epochs="many"))
        condition = cluster.await_condition("bad-config", "Invalid", "InvalidSpec", 60)
        assert "spec.training.config.epochs" in condition["message"]
        assert cluster.pods("bad-config") == []
    finally:
        cluster.delete_job("bad-config")


def test_an_error_that_only_the_program_finds_fails_the_job_with_the_field_and_without_a_restart(
    cluster: Cluster,
) -> None:
    try:
        cluster.apply(example("bad-metric", metrics=["keras.NoSuchMetric"]))
        condition = cluster.await_condition("bad-metric", "Failed", "UserError", 120)
        assert "training.config.metrics" in condition["message"]
        assert cluster.job("bad-metric")["status"]["attempt"] == 0
    finally:
        cluster.delete_job("bad-metric")
