"""Labels of a job on its pods and other objects."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from support.bench import JOB, KEY, POLICY, SERVICE, Bench, bench_served
from support.factories import manifest

from tfdist.desired.objects import objects
from tfdist.desired.owned_kinds import SERVICE as SERVICE_KIND
from tfdist.render.fingerprint import fingerprint
from tfdist.render.gang import gangs
from tfdist.render.installation import Installation
from tfdist.render.pod import Attempt, pod
from tfdist.validation import ValidationFailed, parse

WORKER = "/api/v1/namespaces/team/pods/fashion-worker-0"
COSTS = {"team": "a", "example.com/cost-center": "42"}
RESERVED = {
    "tfdist.dev/role": "chief",
    "tfdist.dev/job-uid": "another",
    "kueue.x-k8s.io/queue-name": "gpus",
    "kueue.x-k8s.io/priority-class": "high",
    "jobset.sigs.k8s.io/jobset-name": "another",
    "applyset.kubernetes.io/part-of": "applyset-v1",
    "kapp.k14s.io/app": "1",
    "app.kubernetes.io/managed-by": "Helm",
    "app.kubernetes.io/instance": "release",
}


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with bench_served() as made:
        yield made


def labelled(labels: Any, **spec: Any) -> dict[str, Any]:
    made = manifest(**spec)
    made["metadata"]["labels"] = labels
    return made


def labels_of(made: Mapping[str, Any]) -> dict[str, str]:
    return dict(made["metadata"]["labels"])


def relabel(bench: Bench, **labels: str) -> None:
    """Let the user change labels of the job, which does not increment its generation."""
    known = bench.api.objects[JOB]
    bench.jobs.on_update(bench.api.put(JOB, known | {"metadata": known["metadata"] | {"labels": labels}}))


def test_every_object_and_pod_of_a_job_has_its_labels() -> None:
    job = parse(labelled(COSTS, tensorBoard={"logDirectory": "/logs"}))
    made = objects(job, "tfdist/trainer:test")
    templates = [each["spec"]["template"] for each in made if each["kind"] == "Deployment"]
    assert {each["kind"] for each in made} == {"Service", "NetworkPolicy", "Pod", "Deployment"}
    assert all(COSTS.items() <= labels_of(each).items() for each in [*made, *templates])


def test_a_label_with_a_meaning_for_controllers_or_tools_is_not_inherited() -> None:
    with_labels, without = (
        [labels_of(each) for each in objects(parse(labelled(given)), "tfdist/trainer:test")] for given in (RESERVED, {})
    )
    assert with_labels == without


def test_the_template_overrides_labels_of_the_job_which_override_those_of_the_installation() -> None:
    job = parse(labelled({"team": "job", "tier": "job"}, template={"metadata": {"labels": {"tier": "template"}}}))
    defaults = {"metadata": {"labels": {"team": "installation", "zone": "installation"}}}
    gang = gangs(job)[0]
    made = pod(job, gang, gang.members[0], Attempt(0, 0), Installation("trainer:1", pod_defaults=defaults))
    assert {"team": "job", "tier": "template", "zone": "installation"}.items() <= labels_of(made).items()


def test_labels_do_not_make_a_pod_outdated() -> None:
    assert fingerprint(parse(labelled(COSTS))) == fingerprint(parse(labelled(None)))


def test_a_label_that_is_no_string_is_reported_once() -> None:
    with pytest.raises(ValidationFailed) as failed:
        parse(labelled({"team": 1, "tier": "a"}))
    assert [problem.path for problem in failed.value.problems] == ["metadata.labels.team"]


async def test_a_changed_label_of_a_job_changes_its_service_and_no_running_pod(bench: Bench) -> None:
    # given a running job
    bench.job()
    await bench.reconcile()
    bench.run("worker-0", "worker-1")
    await bench.reconcile()
    bench.api.asked.clear()
    # when the user sets a label
    relabel(bench, team="b")
    assert await bench.reconcile()
    # then its objects get it at once, and its pods continue; it is reported as no repair
    assert labels_of(bench.api.objects[SERVICE])["team"] == labels_of(bench.api.objects[POLICY])["team"] == "b"
    assert bench.api.requests("pods") == []
    assert bench.api.requests("events") == []
    bench.api.asked.clear()
    assert await bench.reconcile()
    assert bench.api.requests("services") == []


async def test_a_pod_that_is_created_later_has_the_newest_labels(bench: Bench) -> None:
    # given pods of an earlier generation
    bench.job()
    await bench.reconcile()
    bench.run("worker-0", "worker-1")
    bench.change(image="trainer:2")
    relabel(bench, team="b")
    # when a gang of the earlier generation restarts
    bench.fail("worker-1")
    assert await bench.reconcile()
    # then
    assert labels_of(bench.api.objects[f"{WORKER}-r1"])["team"] == "b"


async def test_a_label_of_a_job_that_another_client_removes_from_the_service_is_restored(bench: Bench) -> None:
    bench.job()
    relabel(bench, team="b")
    await bench.reconcile()
    known = bench.api.objects[SERVICE]
    kept = {name: value for name, value in labels_of(known).items() if name != "team"}
    changed = bench.api.put(SERVICE, known | {"metadata": known["metadata"] | {"labels": kept}})
    bench.owned[SERVICE_KIND].on_update(changed)
    await bench.reconcile()
    bench.states.get(KEY, bench.api.objects[JOB]["metadata"]["uid"]).repair_due = 0.0
    await bench.reconcile()
    assert labels_of(bench.api.objects[SERVICE])["team"] == "b"
    assert bench.api.requests("events")
