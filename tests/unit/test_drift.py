"""Owned objects of a running job that are deleted or changed by hand, and what the next reconcile does."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from support.bench import EVENTS, JOB, KEY, POLICY, SERVICE, Bench, bench_served
from support.factories import CHECKPOINT, UID, manifest

from tfdist.desired.owned_kinds import DEPLOYMENT as DEPLOYMENT_KIND
from tfdist.desired.owned_kinds import OWNED_KINDS
from tfdist.desired.owned_kinds import SERVICE as SERVICE_KIND
from tfdist.render import names
from tfdist.scheduling.choice import GANG_SCHEDULERS
from tfdist_operator.cache.owned_cache import OwnedObjectCache, controller_label, watch_owned
from tfdist_operator.kube.backoff import Backoff
from tfdist_operator.kube.client import ApiClient
from tfdist_operator.reconcile import owned

BOTH = ("worker-0", "worker-1")
DEPLOYMENT = "/apis/apps/v1/namespaces/team/deployments/fashion-tensorboard"
SUCCEEDED = {"type": "Succeeded", "status": "True", "lastTransitionTime": "2029-01-01T00:00:00Z", "reason": "Done"} | {
    "message": "done",
    "observedGeneration": 1,
}
ENDED = {"conditions": [SUCCEEDED], "completionTime": "2030-01-02T03:04:00Z"}
BOARD: dict[str, Any] = {"tensorBoard": {"ttlSecondsAfterFinished": 100}, "checkpoint": CHECKPOINT}


@pytest.fixture
async def bench(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    monkeypatch.setattr(owned, "REPAIR", Backoff(0.0, 600.0, jitter=0.0))
    async with bench_served() as made:
        yield made


async def running(bench: Bench, **spec: Any) -> None:
    """Run a job with all its objects, and clear the recorded requests."""
    bench.job(spec=manifest(**spec)["spec"])
    await bench.reconcile()
    bench.run(*BOTH)
    await bench.reconcile()
    bench.watch()
    bench.api.asked.clear()


def change(bench: Bench, path: str, **changes: Any) -> None:
    """Change an object by hand; the watch reports it."""
    found = bench.api.objects[path]
    generation = {"generation": found["metadata"].get("generation", 0) + 1} if "services" not in path else {}
    changed = found | {"metadata": found["metadata"] | generation} | {"spec": found["spec"] | changes}
    bench.api.put(path, changed)
    bench.watch()


def delete(bench: Bench, *paths: str) -> None:
    """Delete objects by hand; the watch reports it."""
    for path in paths:
        del bench.api.objects[path]
    bench.watch()


def events(bench: Bench) -> dict[str, str]:
    return {o["reason"]: o["message"] for p, o in bench.api.objects.items() if p.startswith(EVENTS)}


async def test_objects_without_drift_cost_no_request(bench: Bench) -> None:
    await running(bench, **BOARD)
    assert await bench.reconcile()
    assert bench.api.asked == []


@pytest.mark.parametrize("path", [SERVICE, POLICY, DEPLOYMENT])
async def test_an_object_that_is_deleted_by_hand_is_created_again_and_reported(bench: Bench, path: str) -> None:
    # given a running job
    await running(bench, **BOARD)
    before = bench.api.objects[path]["spec"]
    # when an object of it is deleted
    delete(bench, path)
    # then its key is dirty, and the next reconcile creates the object again
    assert len(bench.queue) == 1
    assert await bench.reconcile()
    assert bench.api.objects[path]["spec"] == before
    assert events(bench)["Repaired"].endswith("was deleted; it is created again")


@pytest.mark.parametrize(
    ("path", "field", "value"),
    [(SERVICE, "selector", {"app": "theirs"}), (POLICY, "ingress", [{}]), (DEPLOYMENT, "replicas", 5)],
)
async def test_an_object_that_is_changed_by_hand_is_changed_back_and_reported(
    bench: Bench, path: str, field: str, value: Any
) -> None:
    await running(bench, **BOARD)
    before = bench.api.objects[path]["spec"]
    change(bench, path, **{field: value})
    assert len(bench.queue) == 1
    assert await bench.reconcile()
    assert bench.api.objects[path]["spec"] == before
    assert events(bench)["Repaired"].endswith("was changed; it is changed back")
    bench.watch()
    bench.api.asked.clear()
    assert await bench.reconcile()
    assert bench.api.asked == []


async def test_labels_and_owner_that_are_removed_by_hand_are_set_again(bench: Bench) -> None:
    await running(bench)
    found = bench.api.objects[SERVICE]
    bench.api.put(SERVICE, found | {"metadata": found["metadata"] | {"labels": {}, "ownerReferences": []}})
    # the watch, which selects by labels, reports a deletion
    bench.owned[SERVICE_KIND].on_delete(found)
    # without labels and owner the object does not belong to the job
    assert not await bench.reconcile()
    labels = found["metadata"]["labels"]
    bench.api.put(SERVICE, found | {"metadata": found["metadata"] | {"labels": labels, "ownerReferences": []}})
    assert await bench.reconcile()
    assert bench.api.objects[SERVICE]["metadata"]["ownerReferences"][0]["uid"] == UID


async def test_a_change_of_a_deployments_status_causes_no_reconcile(bench: Bench) -> None:
    await running(bench, **BOARD)
    found = bench.api.objects[DEPLOYMENT]
    found = bench.api.put(DEPLOYMENT, found | {"metadata": found["metadata"] | {"generation": 1}})
    bench.owned[DEPLOYMENT_KIND].write_through(found)
    while len(bench.queue):
        bench.queue.done(await bench.queue.get())
    bench.api.put(DEPLOYMENT, found | {"status": {"readyReplicas": 1}})
    bench.watch()
    assert len(bench.queue) == 0
    assert await bench.reconcile()
    assert bench.api.asked == []


async def test_a_network_policy_that_is_switched_off_is_removed_from_a_running_job(bench: Bench) -> None:
    await running(bench)
    bench.change(networkPolicy="Disabled")
    assert await bench.reconcile()
    assert POLICY not in bench.api.objects
    assert SERVICE in bench.api.objects


async def test_a_policy_of_that_name_with_another_owner_is_not_removed(bench: Bench) -> None:
    await running(bench)
    found = bench.api.objects[POLICY]
    other = [found["metadata"]["ownerReferences"][0] | {"uid": "another-job"}]
    bench.api.put(POLICY, found | {"metadata": found["metadata"] | {"ownerReferences": other}})
    bench.watch()
    bench.change(networkPolicy="Disabled")
    assert await bench.reconcile()
    assert POLICY in bench.api.objects


async def test_no_object_of_a_job_that_has_ended_is_created_again(bench: Bench) -> None:
    await running(bench, **BOARD)
    bench.job(spec=manifest(**BOARD)["spec"], status=ENDED)
    delete(bench, SERVICE, POLICY, DEPLOYMENT)
    assert await bench.reconcile()
    assert not {SERVICE, POLICY, DEPLOYMENT} & bench.api.objects.keys()


async def test_objects_without_drift_cost_a_new_leader_no_request(bench: Bench) -> None:
    await running(bench, **BOARD)
    bench.start()
    assert await bench.reconcile()
    assert [asked for asked in bench.api.asked if not asked.endswith("/events")] == []


async def test_an_object_that_is_changed_after_a_leader_election_is_changed_back(bench: Bench) -> None:
    await running(bench)
    before = bench.api.objects[POLICY]["spec"]
    bench.start()
    assert await bench.reconcile()
    change(bench, POLICY, ingress=[{}])
    assert await bench.reconcile()
    assert bench.api.objects[POLICY]["spec"] == before


async def test_an_object_that_was_changed_while_no_controller_ran_is_repaired_at_the_first_resync(bench: Bench) -> None:
    # given a policy that was opened before this process started: its metadata does not show the change
    await running(bench)
    before = bench.api.objects[POLICY]["spec"]
    change(bench, POLICY, ingress=[{}])
    bench.start()
    assert await bench.reconcile()
    assert bench.api.objects[POLICY]["spec"] != before
    # when the first resync reads every object that this process has not written
    for cache in bench.owned.values():
        cache.verify()
    # then it is repaired, and an object that was checked once is not checked again
    assert await bench.reconcile()
    assert bench.api.objects[POLICY]["spec"] == before
    bench.api.asked.clear()
    assert await bench.reconcile()
    assert bench.api.asked == []


async def test_repeated_changes_by_hand_are_changed_back_with_increasing_delays(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await running(bench)
    monkeypatch.setattr(owned, "REPAIR", Backoff(1.0, 600.0, jitter=0.0))
    state = bench.states.get(KEY, UID)
    waits = []
    for _ in range(4):
        delete(bench, POLICY)
        assert await bench.reconcile()
        assert POLICY not in bench.api.objects, "a repair waits, since the job may be about to be deleted"
        due = state.repair_due
        assert due is not None
        waits.append(round(due - bench.clock))
        state.repair_due = 0.0
        assert await bench.reconcile()
        assert POLICY in bench.api.objects
    assert waits == [1, 2, 4, 8]


async def test_a_restart_does_not_delay_the_service_that_its_pods_need(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await running(bench)
    monkeypatch.setattr(owned, "REPAIR", Backoff(100.0, 600.0, jitter=0.0))
    delete(bench, SERVICE)
    bench.fail("worker-1")
    assert await bench.reconcile()
    assert bench.api.objects[SERVICE]["spec"]["selector"]["tfdist.dev/address-generation"] == "1"


async def test_a_change_of_an_object_that_is_replaced_meanwhile_is_repeated(bench: Bench) -> None:
    await running(bench)
    change(bench, SERVICE, selector={"app": "theirs"})
    bench.api.put(
        SERVICE, bench.api.objects[SERVICE] | {"metadata": bench.api.objects[SERVICE]["metadata"] | {"uid": "new"}}
    )
    assert not await bench.reconcile()
    bench.watch()
    assert await bench.reconcile()
    assert bench.api.objects[SERVICE]["spec"]["selector"] != {"app": "theirs"}


async def test_another_controller_of_the_job_is_reported_once_and_its_changes_are_kept(bench: Bench) -> None:
    # given a running job
    await running(bench)
    # when a controller of another release becomes the manager of its Service
    found = bench.api.objects[SERVICE]
    labels = found["metadata"]["labels"] | {names.CONTROLLER_LABEL: "other-system.tfdist"}
    theirs = bench.api.put(SERVICE, found | {"metadata": found["metadata"] | {"labels": labels}})
    bench.watch()
    # then one warning names both, and the object, which is equal, is not changed
    assert await bench.reconcile()
    assert await bench.reconcile()
    assert "other-system.tfdist, in addition to tfdist-system.test" in events(bench)["MultipleControllers"]
    assert bench.api.requests("events") == ["POST"]
    assert bench.api.objects[SERVICE] == theirs


async def test_a_controller_of_another_release_that_takes_over_makes_the_objects_its_own(bench: Bench) -> None:
    await running(bench)
    found = bench.api.objects[SERVICE]
    labels = found["metadata"]["labels"] | {names.CONTROLLER_LABEL: "other-system.tfdist"}
    bench.api.put(SERVICE, found | {"metadata": found["metadata"] | {"labels": labels}})
    bench.start()
    assert await bench.reconcile()
    assert bench.api.objects[SERVICE]["metadata"]["labels"][names.CONTROLLER_LABEL] == "tfdist-system.test"
    assert "MultipleControllers" not in events(bench)


async def test_a_tensorboard_that_is_rejected_is_reported_once_and_not_retried_at_every_reconcile(bench: Bench) -> None:
    rejection = (403, "Forbidden", "exceeded quota", "")
    bench.api.reject = lambda method, path: rejection if method == "POST" and path.endswith("/deployments") else None
    bench.job(spec=manifest(**BOARD)["spec"])
    assert await bench.reconcile()
    assert await bench.reconcile()
    assert await bench.reconcile()
    assert bench.api.requests("deployments") == ["POST"]
    assert len([e for e in events(bench) if e == "TensorBoardRejected"]) == 1
    bench.api.reject = lambda _method, _path: None
    bench.states.get(KEY, UID).tensorboard_retry_at = 0.0
    assert await bench.reconcile()
    assert DEPLOYMENT in bench.api.objects
    assert JOB in bench.api.objects


def test_every_kind_is_watched_and_compared_by_its_metadata() -> None:
    caches = [OwnedObjectCache(kind, lambda _: None) for kind in OWNED_KINDS]
    watches = watch_owned(ApiClient("https://localhost", None, dict), ["team"], caches)
    plurals = ["services", "networkpolicies", "deployments", *["podgroups"] * len(GANG_SCHEDULERS)]
    assert [informer.plural for informer, _ in watches] == plurals
    for _, compared in watches:
        assert compared.periodic, "each resync compares it"
        assert "PartialObjectMetadata" in compared.watched.accepts_object
        assert "PartialObjectMetadataList" in compared.watched.accepts_list


def test_the_label_of_a_controller_with_any_names_is_valid() -> None:
    assert controller_label("tfdist-system", "tfdist") == "tfdist-system.tfdist"
    long = controller_label("n" * 60, "m" * 60)
    assert len(long) <= 63
    assert long != controller_label("n" * 60, "m" * 59)
