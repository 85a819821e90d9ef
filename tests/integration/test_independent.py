"""Strategy `Independent` against a real API server: a failed replica comes back, and the other pod is not touched."""

import pytest
from support.api import Api, Json
from support.factories import manifest
from support.polling import wait_for

pytestmark = pytest.mark.integration

SPEC: Json = {"strategy": "Independent", "chief": {}, "worker": {"replicas": 1}, "training": {"script": "/code/s.py"}}


def await_running(api: Api, namespace: str, pod: str) -> Json:
    """Return the pods by name once `pod` and the whole job run."""

    def found() -> dict[str, Json] | None:
        pods = {each["metadata"]["name"]: each for each in api.pods(namespace)}
        status = api.job(namespace, "search").get("status", {})
        ready = {each["type"]: each["status"] for each in status.get("conditions", ())}.get("PodsReady")
        runs = pods.get(pod, {}).get("status", {}).get("phase") == "Running"
        return pods if runs and (status["phase"], ready) == ("Running", "True") else None

    pods = wait_for(f"{pod} to run", found)
    assert pods is not None
    return pods


@pytest.mark.long
@pytest.mark.usefixtures("controller")
def test_one_of_two_replicas_fails_and_comes_back_while_the_other_stays_until_the_chief_has_succeeded(
    api: Api, namespace: str
) -> None:
    # given
    made = manifest("search", namespace, **SPEC)
    del made["metadata"]["uid"]
    api.create_job(made)
    before = await_running(api, namespace, "search-worker-0")["search-chief-0"]["metadata"]
    # when
    api.end_container(namespace, "search-worker-0", 1, "lost its peer")
    after = await_running(api, namespace, "search-worker-0-r1")
    # then
    assert set(after) == {"search-chief-0", "search-worker-0", "search-worker-0-r1"}
    chief = after["search-chief-0"]["metadata"]
    assert (chief["uid"], chief["labels"]) == (before["uid"], before["labels"])
    assert "deletionTimestamp" not in chief
    assert api.job(namespace, "search")["status"]["restarts"]["counted"] == 1
    # and when the chief succeeds
    api.end_container(namespace, "search-chief-0", 0)
    wait_for("the success", lambda: api.job(namespace, "search")["status"]["phase"] == "Succeeded")
    wait_for(
        "the worker to be deleted",
        lambda: "search-worker-0-r1" not in {p["metadata"]["name"] for p in api.pods(namespace)},
    )
