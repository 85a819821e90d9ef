"""Pod defaults of an installation: they override the defaults of TFDist, and a job overrides them."""

import json
from typing import Any

import pytest
from support.factories import manifest

from tfdist.render.gang import gangs
from tfdist.render.installation import Installation
from tfdist.render.pod import Attempt, pod
from tfdist.validation import parse
from tfdist_operator.cache.job_cache import JobCache
from tfdist_operator.config import from_environment

ENVIRONMENT = {"TFDIST_TRAINER_IMAGE": "tfdist/trainer:test"}
DEFAULTS = {
    "metadata": {"labels": {"team": "shared", "cost": "research"}},
    "spec": {"nodeSelector": {"pool": "training"}, "priorityClassName": "usual"},
}


def rendered(**spec: Any) -> dict[str, Any]:
    job = parse(manifest(**spec))
    gang = gangs(job)[0]
    return pod(job, gang, gang.members[0], Attempt(0, 0), Installation("tfdist/trainer:test", pod_defaults=DEFAULTS))


def test_a_job_without_settings_gets_those_of_the_installation() -> None:
    made = rendered()
    assert made["spec"]["nodeSelector"] == {"pool": "training"}
    assert made["metadata"]["labels"]["cost"] == "research"
    assert made["spec"]["securityContext"]["runAsNonRoot"] is True


def test_settings_of_a_job_win() -> None:
    template = {"metadata": {"labels": {"team": "vision"}}, "spec": {"nodeSelector": {"pool": "large"}}}
    made = rendered(template=template, scheduling={"priorityClassName": "urgent"})
    assert made["spec"]["nodeSelector"] == {"pool": "large"}
    assert made["metadata"]["labels"] | {"team": "vision", "cost": "research"} == made["metadata"]["labels"]
    assert made["spec"]["priorityClassName"] == "urgent"


def test_the_controller_reads_them_and_its_namespaces_from_the_environment() -> None:
    given = {"TFDIST_POD_DEFAULTS": json.dumps(DEFAULTS), "TFDIST_NAMESPACE": "a, b,a,"}
    settings = from_environment(ENVIRONMENT | given)
    assert settings.installation.pod_defaults == DEFAULTS
    assert settings.namespaces == ("a", "b")
    assert from_environment(ENVIRONMENT).namespaces == ()


def test_a_container_and_a_volume_of_the_installation_need_no_setting_in_a_job() -> None:
    volume = {"name": "cache", "emptyDir": {}}
    given = {"spec": {"containers": [{"name": "log", "image": "log:1"}], "volumes": [volume]}}
    side = {"name": "log", "volumeMounts": [{"name": "cache", "mountPath": "/cache"}]}
    raw = manifest(template={"spec": {"containers": [side]}})
    raw["metadata"] |= {"resourceVersion": "1", "generation": 1}
    stores = JobCache(given), JobCache()
    for store in stores:
        store.upsert(raw)
    known, unknown = (store.all()[0] for store in stores)
    assert known.problems == ()
    assert [problem.path.rpartition(".")[2] for problem in unknown.problems] == ["name", "image"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("{", "TFDIST_POD_DEFAULTS: must be JSON, such as"),
        ("[]", "must be an object"),
        ('{"spec": {"nodeSelektor": {}}}', "spec.nodeSelektor: unknown field"),
        ('{"spec": {"initContainers": [{"name": "wait"}]}}', "the container 'wait' lacks an image"),
    ],
)
def test_an_invalid_default_stops_the_controller_with_the_field(given: str, message: str) -> None:
    with pytest.raises(SystemExit, match="TFDIST_POD_DEFAULTS") as stopped:
        from_environment(ENVIRONMENT | {"TFDIST_POD_DEFAULTS": given})
    assert message in str(stopped.value)
