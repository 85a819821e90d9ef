"""What every gang scheduler and every queue of the tables must do, whichever it is."""

import pytest
from support.factories import INSTALLATION, manifest

from tfdist.api.gang_system import Availability, GangSystem
from tfdist.desired.owned_kinds import OWNED_KINDS
from tfdist.render.gang import training_gang
from tfdist.scheduling.choice import GANG_SCHEDULERS, QUEUES, choose, no_queues
from tfdist.scheduling.gang_scheduler import GangScheduler
from tfdist.scheduling.queue import Queue
from tfdist.validation import parse
from tfdist_operator.permissions import RULES

every_scheduler = pytest.mark.parametrize("scheduler", GANG_SCHEDULERS.values(), ids=lambda s: str(s.system))
every_queue = pytest.mark.parametrize("queue", QUEUES.values(), ids=lambda q: str(q.system))


def test_each_system_is_in_one_of_the_two_tables() -> None:
    assert GANG_SCHEDULERS.keys() | QUEUES.keys() == set(GangSystem) - {GangSystem.NONE}
    assert not GANG_SCHEDULERS.keys() & QUEUES.keys()


@every_scheduler
def test_a_job_that_requests_a_gang_scheduler_gets_it_even_if_it_is_not_served(scheduler: GangScheduler) -> None:
    job = parse(manifest(worker={"replicas": 2}, scheduling={"gang": str(scheduler.system)}))
    assert choose(job, training_gang(job), INSTALLATION, served=frozenset()) is scheduler


@every_scheduler
def test_the_controller_watches_its_pod_groups_and_may_write_them(scheduler: GangScheduler) -> None:
    assert scheduler.kind in OWNED_KINDS
    assert scheduler.kind.optional
    assert (scheduler.kind.group, scheduler.kind.plural) in {rule[:2] for rule in RULES}


@every_scheduler
def test_a_template_with_its_pod_fields_names_a_group_of_the_users(scheduler: GangScheduler) -> None:
    fields = scheduler.pod_fields("mine", "")
    template = {
        "metadata": {"labels": dict(fields.labels), "annotations": dict(fields.annotations)},
        "spec": dict(fields.spec),
    }
    assert scheduler.names_group(template)


@every_scheduler
def test_a_template_with_only_its_scheduler_names_no_group(scheduler: GangScheduler) -> None:
    name = scheduler.pod_fields("mine", "").spec.get("schedulerName", "default-scheduler")
    assert not scheduler.names_group({"metadata": {"labels": {}, "annotations": {}}, "spec": {"schedulerName": name}})


@every_scheduler
def test_it_says_what_is_missing_and_what_to_do(scheduler: GangScheduler) -> None:
    assert scheduler.unavailable(Availability.SERVED) == ""
    assert scheduler.kind.resource in scheduler.unavailable(Availability.UNKNOWN)
    text = scheduler.unavailable(Availability.ABSENT)
    assert text.startswith(f"scheduling.gang: {scheduler.system}: the API server serves no {scheduler.kind.resource}; ")
    assert scheduler.remedy in text


@every_queue
def test_a_queue_says_why_it_cannot_admit_a_job_and_the_controller_may_write_what_it_admits(queue: Queue) -> None:
    assert queue.missing(Availability.UNKNOWN) != queue.missing(Availability.ABSENT)
    plural, _, group = queue.resource.partition(".")
    assert (group, plural) in {rule[:2] for rule in RULES}


@every_queue
def test_a_job_names_its_queue_by_the_field_or_by_the_label(queue: Queue) -> None:
    labelled = manifest()
    labelled["metadata"]["labels"] = {queue.label: "team-a"}
    assert not queue.is_named_by(parse(manifest()))
    assert queue.is_named_by(parse(labelled))
    assert queue.is_named_by(parse(manifest(scheduling={"queue": "team-a"})))


def test_a_job_whose_queue_nobody_serves_reads_which_systems_would_do() -> None:
    assert no_queues("team-a") == (
        "scheduling.queue: team-a: the API server serves neither workloads.kueue.x-k8s.io nor "
        "podgroups.scheduling.volcano.sh; install Kueue or Volcano, or remove queue"
    )
