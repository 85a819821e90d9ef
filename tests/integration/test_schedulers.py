"""The schedulers of other projects do here what they do in a cluster: what tests of TFDist with them rely on."""

import pytest
from support.api import PODS, Api, Json
from support.places import PLACE, node_with_places
from support.polling import wait_for
from support.schedulers import coscheduling, kueue, volcano

pytestmark = [pytest.mark.integration, pytest.mark.long]

SIZE = 3
QUEUE = "team-a"


def create_workload(api: Api, namespace: str, name: str, cpus: int, priority: int = 0) -> None:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": cpus}}}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    # A queue with a Workload without priority cannot be listed: Kueue's aggregated API ends the request with an error.
    spec = {"queueName": QUEUE, "priority": priority, "podSets": [{"name": "main", "count": 1, "template": template}]}
    kind = {"apiVersion": f"{kueue.GROUP}/v1beta1", "kind": "Workload"}
    api.do("POST", kueue.WORKLOADS.format(ns=namespace), kind | {"metadata": {"name": name}, "spec": spec})


def condition(api: Api, path: str, kind: str) -> Json:
    """Return a condition of an object, or nothing."""
    conditions = api.do("GET", path).get("status", {}).get("conditions", ())
    return next((each for each in conditions if each["type"] == kind), {})


def is_admitted(api: Api, namespace: str, name: str) -> bool:
    return condition(api, f"{kueue.WORKLOADS.format(ns=namespace)}/{name}", "Admitted").get("status") == "True"


def create_pods(api: Api, namespace: str, scheduler: str, **meta: Json) -> None:
    """Create the pods of a gang, which take one place each."""
    container = {"name": "c", "image": "x", "resources": {"limits": {PLACE: 1}}}
    for i in range(SIZE):
        spec = {"schedulerName": scheduler, "containers": [container], "terminationGracePeriodSeconds": 0}
        api.do("POST", PODS.format(ns=namespace), {"metadata": {"name": f"p{i}"} | meta, "spec": spec})


def scheduled(api: Api, namespace: str) -> int:
    return sum("nodeName" in pod["spec"] for pod in api.pods(namespace))


def create_group(api: Api, path: str, api_version: str, **spec: object) -> None:
    kind = {"apiVersion": api_version, "kind": "PodGroup", "metadata": {"name": "gang"}}
    api.do("POST", path, kind | {"spec": {"minMember": SIZE, **spec}})


@pytest.mark.usefixtures("kueue")
def test_kueue_admits_what_the_quota_allows_and_the_next_workload_when_it_ends(api: Api, namespace: str) -> None:
    # given a queue with a quota of four CPUs
    kueue.create_queue(api, namespace, QUEUE, cpu=4)
    workloads = kueue.WORKLOADS.format(ns=namespace)
    # when two Workloads ask for three each
    create_workload(api, namespace, "first", 3)
    wait_for("the first", lambda: is_admitted(api, namespace, "first"))
    create_workload(api, namespace, "second", 3)
    # then one is admitted, the other one is not, and its condition has the reason
    held = wait_for("the second to be held", lambda: condition(api, f"{workloads}/second", "QuotaReserved"))
    assert held["status"] == "False"
    assert "insufficient unused quota for cpu" in held["message"], held
    assert condition(api, f"{workloads}/first", "QuotaReserved")["status"] == "True"
    # and its position is known
    (pending,) = api.do("GET", kueue.PENDING.format(ns=namespace, queue=QUEUE))["items"]
    assert (pending["metadata"]["name"], pending["positionInLocalQueue"]) == ("second", 0)
    # and it is admitted when the first is gone
    api.do("DELETE", f"{workloads}/first")
    wait_for("the second", lambda: is_admitted(api, namespace, "second"))


@pytest.mark.usefixtures("kueue")
def test_an_evicted_workload_keeps_its_quota_until_its_controller_releases_it(api: Api, namespace: str) -> None:
    # given
    kueue.create_queue(api, namespace, QUEUE, cpu=4)
    low, high = (f"{kueue.WORKLOADS.format(ns=namespace)}/{name}" for name in ("low", "high"))
    create_workload(api, namespace, "low", 3)
    wait_for("the low one", lambda: is_admitted(api, namespace, "low"))
    # when one of a higher priority needs the quota
    create_workload(api, namespace, "high", 3, priority=1)
    waits = "Pending the preemption of 1 workload(s)"
    wait_for("the high one to wait", lambda: waits in condition(api, high, "QuotaReserved").get("message", ""))
    # then the low one is only marked
    wait_for("the eviction", lambda: condition(api, low, "Evicted").get("reason") == "Preempted")
    assert condition(api, low, "QuotaReserved")["status"] == "True"
    # and what Kueue does for jobs that it knows, the controller of another job must do
    conditions = api.do("GET", low)["status"]["conditions"]
    released = {"QuotaReserved": "False", "Admitted": "False"}
    status = {"conditions": [each | {"status": released.get(each["type"], each["status"])} for each in conditions]}
    api.do("PATCH", f"{low}/status", {"status": status | {"admission": None}}, "merge-patch")
    wait_for("the high one", lambda: is_admitted(api, namespace, "high"))
    # and the low one is queued again
    api.do("DELETE", high)
    wait_for("the low one again", lambda: is_admitted(api, namespace, "low"))


@pytest.mark.usefixtures("volcano")
def test_volcano_schedules_a_gang_as_a_whole(api: Api, namespace: str) -> None:
    groups = volcano.GROUPS.format(ns=namespace)
    with node_with_places(api, SIZE - 1):
        # given
        create_group(api, groups, volcano.API_VERSION, queue="default", minResources={PLACE: SIZE})
        create_pods(api, namespace, volcano.NAME, annotations={volcano.ANNOTATION: "gang"})
        # then
        wait_for("the gang to be held", lambda: condition(api, f"{groups}/gang", "Unschedulable"))
        assert scheduled(api, namespace) == 0
        with node_with_places(api, 1):
            wait_for("all pods", lambda: scheduled(api, namespace) == SIZE)


@pytest.mark.usefixtures("coscheduling")
def test_coscheduling_schedules_a_gang_as_a_whole(api: Api, namespace: str) -> None:
    groups = coscheduling.GROUPS.format(ns=namespace)
    pods = PODS.format(ns=namespace)

    def held() -> bool:
        return all(condition(api, f"{pods}/p{i}", "PodScheduled").get("status") == "False" for i in range(SIZE))

    def schedules_again() -> bool:
        """A new node alone does not make the scheduler try again; an update of the PodGroup does."""
        touched = api.do("GET", f"{groups}/gang")["metadata"]["resourceVersion"]
        api.do("PATCH", f"{groups}/gang", {"metadata": {"annotations": {"touched": touched}}}, "merge-patch")
        return scheduled(api, namespace) == SIZE

    with node_with_places(api, SIZE - 1):
        # given
        create_group(api, groups, coscheduling.API_VERSION, scheduleTimeoutSeconds=10)
        create_pods(api, namespace, coscheduling.NAME, labels={coscheduling.LABEL: "gang"})
        # then
        wait_for("the gang to be held", held)
        assert scheduled(api, namespace) == 0
        with node_with_places(api, 1):
            wait_for("all pods", schedules_again, every_seconds=1)
