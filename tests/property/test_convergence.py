"""Any sequence of what can happen to pods, to the job and to the controller ends in a final state, and stays there."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.cluster_model import EXITS, JOBS, Cluster

from tfdist_operator.status.phase import is_terminal

Happening = tuple[str, int, int | None]
POD = st.tuples(st.just("pod"), st.integers(0, 5), st.sampled_from((*EXITS, 0, 0, None)))
LOOK = st.tuples(st.just("look"), st.integers(0, 3), st.one_of(st.none(), st.none(), st.integers(0, 8)))
OTHER = st.one_of(
    st.tuples(st.just("collected"), st.integers(0, 5), st.none()),
    st.tuples(st.just("user"), st.integers(1, 3), st.sampled_from((0, 0, 1))),
    st.tuples(st.just("time"), st.sampled_from((1, 15, 120, 700, 4000, 30000)), st.none()),
)
HISTORIES = st.lists(st.one_of(POD, POD, LOOK, LOOK, OTHER), max_size=40)
EVERY_JOB = pytest.mark.parametrize("kind", JOBS)
FEW = settings(max_examples=170, deadline=None, suppress_health_check=[HealthCheck.too_slow])
MANY = settings(FEW, max_examples=5000)


def go_on(cluster: Cluster, happening: Happening) -> None:
    """Have one happening of a history come true; a look is made from what part of the truth has come through."""
    match happening:
        case ("pod", which, code):
            cluster.happen(which, code)
        case ("look", part, killed_after):
            cluster.sync(part)
            cluster.look(killed_after)
        case ("collected", which, _):
            cluster.collect(which)
        case ("user", workers, suspend):
            cluster.user(suspend=bool(suspend), workers=workers)
        case _:
            cluster.now += cluster.now.resolution * happening[1] * 1_000_000


def converges(kind: str, history: list[Happening]) -> None:
    cluster = Cluster(kind)
    for happening in history:
        go_on(cluster, happening)
    cluster.finish()
    status = cluster.true.status
    assert is_terminal(status), status
    before = cluster.requests.copy()
    cluster.look()
    assert cluster.requests == before, "an idle job causes requests"
    assert all(p.ended for p in cluster.pods.values()), "a pod outlives its job"


def completes(kind: str, history: list[Happening]) -> None:
    cluster = Cluster(kind)
    for happening in history:
        go_on(cluster, happening)
        for _ in range(3):
            cluster.sync()
            cluster.look()
        cluster.check_rest()
        again = cluster.plan()
        assert (again.status, again.creates, again.patches, again.deletes) == (None, (), (), ())


@EVERY_JOB
@FEW
@given(history=HISTORIES)
def test_every_history_converges_to_a_final_state_and_rests_there(kind: str, history: list[Happening]) -> None:
    converges(kind, history)


@EVERY_JOB
@settings(FEW, max_examples=60)
@given(history=HISTORIES)
def test_what_was_carried_out_is_not_planned_again_and_no_address_is_held_twice(
    kind: str, history: list[Happening]
) -> None:
    completes(kind, history)


@EVERY_JOB
@settings(FEW, max_examples=40)
@given(history=HISTORIES, rest=st.lists(st.one_of(POD, LOOK), max_size=10))
def test_a_job_that_somebody_deletes_gets_no_pod_once_that_is_seen(
    kind: str, history: list[Happening], rest: list[Happening]
) -> None:
    cluster = Cluster(kind)
    for happening in history:
        go_on(cluster, happening)
    cluster.remove_job()
    cluster.sync()
    for happening in rest:
        go_on(cluster, happening)


@pytest.mark.long
@EVERY_JOB
@MANY
@given(history=HISTORIES)
def test_many_more_histories_converge(kind: str, history: list[Happening]) -> None:
    converges(kind, history)
    completes(kind, history)
