"""Any history of pods, job and controller ends in a final state, which is stable."""

from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.cluster_model import EXITS, Cluster
from support.model_checks import check_pods
from support.model_end import finish, resync
from support.model_jobs import JOBS
from support.simulated_kueue import ADMITS
from support.statuses import is_finished

from tfdist.api.gang_system import GangSystem
from tfdist.desired.owned_kinds import POD_GROUPS

SYSTEMS = (frozenset[GangSystem](), frozenset({GangSystem.NATIVE}), frozenset(POD_GROUPS))
Happening = tuple[str, int, int | None]
POD = st.tuples(st.just("pod"), st.integers(0, 5), st.sampled_from((*EXITS, 0, 0, None)))
RECONCILE = st.tuples(st.just("reconcile"), st.integers(0, 3), st.one_of(st.none(), st.none(), st.integers(0, 8)))
EDIT = st.tuples(st.just("edit"), st.integers(0, 3), st.sampled_from((0, 1, 1)))
OTHER = st.one_of(
    st.tuples(st.just("collected"), st.integers(0, 5), st.none()),
    st.tuples(st.just("user"), st.integers(1, 3), st.sampled_from((0, 0, 1))),
    EDIT,
    st.tuples(st.just("restart"), st.integers(0, 1), st.none()),
    st.tuples(st.just("priority"), st.integers(0, 2), st.none()),
    st.tuples(st.just("report"), st.integers(0, 3), st.sampled_from((0, 1, 1))),
    st.tuples(st.just("pod groups"), st.integers(0, 3), st.none()),
    st.tuples(st.just("queue"), st.sampled_from((0, 1, 1, 2, 3)), st.none()),
    st.tuples(st.just("time"), st.sampled_from((1, 15, 120, 700, 4000, 30000)), st.none()),
)
DRIFT = st.tuples(st.just("drift"), st.integers(0, 1), st.sampled_from((0, 1)))
HISTORIES = st.lists(st.one_of(POD, POD, RECONCILE, RECONCILE, OTHER, DRIFT), max_size=40)
LOSSY_HISTORIES = st.lists(
    st.one_of(POD, POD, RECONCILE, RECONCILE, OTHER, DRIFT, st.tuples(st.just("lost"), st.just(0), st.none())),
    max_size=40,
)
RELEASED: list[Happening] = [
    ("reconcile", 0, None),
    ("queue", ADMITS, None),
    ("reconcile", 0, None),
    ("pod", 0, 0),
    ("pod", 1, 0),
    ("reconcile", 0, None),
    ("pod", 0, 0),
    ("reconcile", 0, None),
    ("reconcile", 0, None),
]
"""A job of two independent workers is admitted, and has released the quota of the one that has completed."""
EVERY_JOB = pytest.mark.parametrize("kind", JOBS)
FEW = settings(max_examples=140, suppress_health_check=[HealthCheck.too_slow])
MANY = settings(FEW, max_examples=1000)


def go_on(cluster: Cluster, happening: Happening) -> None:
    """Apply one entry of a history; a reconcile reads the part of the true state that the watch has delivered."""
    match happening:
        case ("pod", which, code):
            cluster.happen(which, code)
        case ("reconcile", part, killed_after):
            cluster.sync(part)
            cluster.reconcile(killed_after)
        case ("lost", _, _):
            cluster.lose_wake_ups()
        case ("collected", which, _):
            cluster.collect(which)
        case ("user", workers, suspend):
            cluster.user(suspend=bool(suspend), workers=workers)
        case ("edit", number, valid):
            cluster.edit(number, valid=bool(valid))
        case ("restart", value, _):
            cluster.ask_for_restart(str(value))
        case ("priority", value, _):
            cluster.prioritize(value)
        case ("time", seconds, _):
            cluster.now += timedelta(seconds=seconds)
        case _:
            _go_on_around(cluster, happening)
            cluster.dirty = True


def _go_on_around(cluster: Cluster, happening: Happening) -> None:
    """Apply an entry that changes what the job depends on, other than its pods and itself."""
    match happening:
        case ("drift", which, deletes):
            cluster.owned.tamper(which, delete=bool(deletes))
        case ("pod groups", served, _):
            cluster.unknown = served == len(SYSTEMS)
            cluster.served_systems = frozenset() if cluster.unknown else SYSTEMS[served]
        case ("report", which, is_hostile):
            cluster.hostile = which if is_hostile else None
        case ("queue", which, _) if cluster.kueue:
            cluster.kueue.happen(which)


def converges(kind: str, history: list[Happening]) -> None:
    cluster = Cluster(kind)
    for happening in history:
        go_on(cluster, happening)
    finish(cluster)
    status = cluster.true.status
    assert is_finished(status), status
    before = cluster.requests.copy()
    cluster.reconcile()
    assert cluster.requests == before, "an idle job causes requests"
    assert all(p.ended for p in cluster.pods.values()), "a pod outlives its job"


def completes(kind: str, history: list[Happening]) -> None:
    cluster = Cluster(kind)
    for happening in history:
        go_on(cluster, happening)
        for _ in range(3):
            cluster.sync()
            cluster.reconcile()
        check_pods([*cluster.pods.values()], cluster.served)
        again = cluster.plan()
        cluster.owned.check(again, ending=cluster.ending, served=cluster.served_systems)
        assert (again.status, again.creates, again.patches, again.deletes) == (None, (), (), ())
        assert again.workload is None
        check_priority(cluster)


def check_priority(cluster: Cluster) -> None:
    """Assert that a Workload has the priority of its job, whether it waits or is admitted."""
    kueue, edition = cluster.kueue, cluster.true.edition
    if kueue and kueue.served and kueue.workload and edition.valid and not kueue.finished and not kueue.evicted:
        assert edition.suspend or kueue.priority_class == f"workloadpriorityclasses/class-{edition.priority}"


@EVERY_JOB
@FEW
@given(history=HISTORIES)
def test_every_history_converges_to_a_stable_final_state(kind: str, history: list[Happening]) -> None:
    converges(kind, history)


def survives_lost_wake_ups(kind: str, history: list[Happening]) -> None:
    cluster = Cluster(kind)
    for happening in history:
        go_on(cluster, happening)
    cluster.served_systems, cluster.unknown = SYSTEMS[2], False
    cluster.edit(cluster.true.edition.edit, valid=True)
    cluster.user(suspend=False, workers=cluster.true.edition.workers or 1)
    for _ in range(60):
        cluster.lose_wake_ups()
        if not resync(cluster) and is_finished(cluster.true.status):
            break
    assert is_finished(cluster.true.status), cluster.true.status
    assert all(p.ended for p in cluster.pods.values()), "a pod outlives its job"
    cluster.owned.check(cluster.plan(), ending=cluster.ending, served=cluster.served_systems)


@EVERY_JOB
@settings(FEW, max_examples=50)
@given(history=LOSSY_HISTORIES)
def test_every_history_converges_by_resyncs_alone_where_all_wake_ups_are_lost(
    kind: str, history: list[Happening]
) -> None:
    survives_lost_wake_ups(kind, history)


@EVERY_JOB
@settings(FEW, max_examples=60)
@given(history=HISTORIES)
def test_an_executed_plan_is_not_repeated_and_no_address_is_used_twice(kind: str, history: list[Happening]) -> None:
    completes(kind, history)


@EVERY_JOB
@settings(FEW, max_examples=40)
@given(history=HISTORIES, rest=st.lists(st.one_of(POD, RECONCILE), max_size=10))
def test_a_deleted_job_gets_no_pod_once_the_deletion_is_observed(
    kind: str, history: list[Happening], rest: list[Happening]
) -> None:
    cluster = Cluster(kind)
    for happening in history:
        go_on(cluster, happening)
    cluster.remove_job()
    cluster.sync()
    for happening in rest:
        go_on(cluster, happening)


@settings(FEW, max_examples=300)
@given(history=HISTORIES)
def test_every_history_of_a_job_that_has_released_quota_keeps_to_it(history: list[Happening]) -> None:
    converges("independent replicas in a queue of Kueue", [*RELEASED, *history])


def test_the_job_of_that_history_has_released_quota() -> None:
    cluster = Cluster("independent replicas in a queue of Kueue")
    for happening in RELEASED:
        go_on(cluster, happening)
    assert cluster.kueue is not None
    assert cluster.kueue.reclaimable == {"worker": 1}


@pytest.mark.parametrize("kind", ["workers under launchers", "parameter servers with an evaluator"])
@settings(FEW, max_examples=100)
@given(history=st.lists(st.one_of(POD, EDIT, RECONCILE), max_size=15))
def test_no_attempt_of_a_job_that_is_edited_while_it_runs_has_pods_of_two_specifications(
    kind: str, history: list[Happening]
) -> None:
    cluster = Cluster(kind)
    cluster.reconcile()
    for number in range(len(cluster.pods)):
        cluster.happen(number, 0)
    cluster.sync()
    cluster.reconcile()
    for happening in history:
        go_on(cluster, happening)
        cluster.reconcile()


@pytest.mark.long
@pytest.mark.timeout(1800)
@EVERY_JOB
@MANY
@given(history=HISTORIES)
def test_many_more_histories_converge(kind: str, history: list[Happening]) -> None:
    converges(kind, history)
    completes(kind, history)
    survives_lost_wake_ups(kind, history)
