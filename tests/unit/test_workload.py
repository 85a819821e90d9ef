"""The Workload of a job: what its pods request, by role."""

from typing import Any

from support.factories import EVALUATED, INSTALLATION, manifest

from tfdist.desired.objects import objects
from tfdist.scheduling.kueue import workload
from tfdist.validation import parse


def test_a_workload_has_a_pod_set_for_each_role_without_what_no_quota_depends_on() -> None:
    job = parse(
        manifest(
            strategy="ParameterServer",
            chief={},
            ps={"replicas": 2},
            worker={"replicas": 4, "resources": {"requests": {"cpu": "2"}}},
            evaluator={},
            command=["run"],
            scheduling={"priorityClassName": "batch"},
        )
    )
    made = workload(job, INSTALLATION)
    sets = {each["name"]: each["count"] for each in made["spec"]["podSets"]}
    assert sets == {"chief": 1, "worker": 4, "ps": 2, "evaluator": 1}
    worker = made["spec"]["podSets"][1]["template"]["spec"]
    assert worker["containers"] == [
        {"name": "tensorflow", "image": "tfdist/trainer:test", "resources": {"requests": {"cpu": "2"}}}
    ]
    assert made["metadata"]["annotations"] == {"tfdist.dev/priority-class": "priorityclasses/batch"}


def test_the_priority_is_no_part_of_what_quota_depends_on() -> None:
    spec: dict[str, Any] = {"scheduling": {"gang": "Kueue", "queue": "team-a"}}
    prior = workload(parse(manifest(**spec)), INSTALLATION)
    spec["scheduling"]["priorityClassName"] = "batch"
    labelled = manifest(**spec)
    labelled["metadata"]["labels"] = {"kueue.x-k8s.io/priority-class": "urgent"}
    classes = []
    for made in (workload(parse(manifest(**spec)), INSTALLATION), workload(parse(labelled), INSTALLATION)):
        assert made["spec"] == prior["spec"]
        assert made["metadata"]["labels"]["tfdist.dev/spec-hash"] == prior["metadata"]["labels"]["tfdist.dev/spec-hash"]
        classes.append(made["metadata"]["annotations"]["tfdist.dev/priority-class"])
    assert classes == ["priorityclasses/batch", "workloadpriorityclasses/urgent"], "Kueue's own one is preferred"


def test_quota_is_for_the_workers_or_for_the_evaluation_after_them_whichever_are_more() -> None:
    spec = EVALUATED | {"evaluation": {"mode": "AfterTraining", "replicas": 3}}
    (only,) = workload(parse(manifest(**spec)), INSTALLATION)["spec"]["podSets"]
    assert (only["name"], only["count"]) == ("worker", 3)


def test_the_rendered_objects_of_a_job_of_kueue_begin_with_its_workload() -> None:
    first, *_ = objects(parse(manifest(scheduling={"gang": "Kueue"})), "tfdist/trainer:test")
    assert (first["apiVersion"], first["kind"]) == ("kueue.x-k8s.io/v1beta2", "Workload")
