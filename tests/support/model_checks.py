"""Invariants of `cluster_model`: of two successive statuses of its job, and of its pods."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from support.model_jobs import BACKOFF_LIMIT, GANGS
from support.statuses import is_finished, status_of
from tfdist.api.status import TFDistJobStatus
from tfdist.contract import LAUNCH_KEY_ENV
from tfdist.observed.gang_record import stored_record
from tfdist.observed.pod import PodSummary


def check_status(old: dict[str, Any], new: dict[str, Any]) -> None:
    """Assert what holds between any status and the next."""
    TFDistJobStatus.model_validate(new)
    if is_finished(old):
        assert new["phase"] == old["phase"], "a final state was left"
    for gang, record in old.get("gangs", {}).items():
        for number in ("attempt", "lastFullRestart", "counted", "uncounted"):
            assert record.get(number, 0) <= new["gangs"][gang].get(number, 0), f"{gang} forgot its {number}"
    for record in new.get("gangs", {}).values():
        assert record.get("sinceCheckpoint", 0) <= BACKOFF_LIMIT, "the limit of restarts was exceeded"
    causes = [f for f in old.get("failures", ()) if f["rootCause"]]
    kept = [f for f in new.get("failures", ()) if f["rootCause"]]
    assert len(kept) == 10 or kept[: len(causes)] == causes, "a failure was forgotten"
    check_history(old, new)


def check_history(old: dict[str, Any], new: dict[str, Any]) -> None:
    """Assert that attempts are listed once and in order, and that usage only grows."""
    attempts = new.get("attempts", [])
    keys = [(a["attempt"], a.get("round", -1)) for a in attempts]
    assert keys == sorted(set(keys)), f"an attempt is listed twice: {keys}"
    assert all("endedAt" in a for a in attempts[:-1]), "two attempts run"
    assert all(a["startedAt"] <= a.get("endedAt", a["startedAt"]) for a in attempts), attempts
    assert not attempts or is_finished(new) <= ("endedAt" in attempts[-1]), "an attempt of a finished job runs"
    before, after = old.get("usage", {}), new.get("usage", {})
    for name in ("gpuSeconds", "cpuSeconds", "updatedAt"):
        assert name not in before or before[name] <= after[name], f"{name} decreased"
    assert 0 <= after.get("lostSeconds", 0) >= before.get("lostSeconds", 0)


def check_pods(pods: Sequence[PodSummary], served: str | None) -> None:
    """Assert what holds once a plan was carried out from the newest view; `served` is the Service's generation."""
    resolved = Counter(p.replica for p in pods if not p.ended and p.generation == served)
    assert all(n == 1 for n in resolved.values()), f"two pods share an address: {resolved}"
    live = Counter(p.replica for p in pods if not p.ended and not p.deleting)
    assert all(n == 1 for n in live.values()), f"a replica runs twice: {live}"


def check_secret(pod: dict[str, Any], secrets: Collection[str]) -> None:
    """Assert that the Secret of the launchers existed before a pod that gets the key from it."""
    for variable in pod["spec"]["containers"][0]["env"]:
        if variable["name"] == LAUNCH_KEY_ENV:
            assert variable["valueFrom"]["secretKeyRef"]["name"] in secrets, "a pod was created before its Secret"


def check_one_specification(
    pod: PodSummary, pods: Iterable[PodSummary], status: dict[str, Any], made_of: Mapping[str, str]
) -> None:
    """Assert that a pod which was made is of the same specification and PodGroup as those of its gang's attempt."""
    gang, roles = next((name, roles) for name, roles in GANGS.items() if pod.role in roles)
    record = stored_record(status_of(status), gang)
    assert record is not None, "a pod of a gang that the status does not know"
    mine = (p for p in pods if p.role in roles and p.attempt == record.attempt_of(p.replica))
    editions = {p.name: made_of[p.name] for p in mine}
    assert len(set(editions.values())) <= 1, f"pods of two specifications in one attempt: {editions}"
