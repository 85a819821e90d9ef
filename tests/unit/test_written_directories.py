"""Which jobs write to one place, and which of them comes first, as the cache of jobs finds them."""

from typing import Any

import pytest
from support.factories import FIRST_ATTEMPT, TRAINING, manifest
from support.statuses import STATED

from tfdist.observed.job_view import DirectoryUser
from tfdist_operator.cache.job_cache import CachedJob, JobCache
from tfdist_operator.kube.keys import NamespacedName

CLAIM: dict[str, Any] = {"persistentVolumeClaim": {"claimName": "ckpt"}}


def raw(
    name: str, checkpoint: Any = None, *, namespace: str = "team", created: str = "", **spec: Any
) -> dict[str, Any]:
    made = manifest(**({"checkpoint": checkpoint} if checkpoint else {}), **spec)
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "generation": 1, "resourceVersion": "5"}
    return made | {"metadata": made["metadata"] | metadata | {"creationTimestamp": created or "2030-01-01T00:00:00Z"}}


def get(jobs: JobCache, name: str) -> CachedJob:
    found = jobs.get(NamespacedName("team", name))
    assert found is not None
    assert not found.problems, found.problems
    return found


def stored(*raws: dict[str, Any]) -> JobCache:
    jobs = JobCache()
    for each in raws:
        jobs.upsert(each)
    return jobs


def user(jobs: JobCache, name: str) -> DirectoryUser | None:
    """Return the job that comes first in a directory of that job."""
    return jobs.directory_user(get(jobs, name))


def first(jobs: JobCache, name: str) -> str:
    """Return the name of the job that comes first in a directory of that job; "" if none is before it."""
    found = user(jobs, name)
    return found.name if found is not None else ""


def on(directory: str, volume: Any = CLAIM) -> dict[str, Any]:
    return {"directory": directory, "volume": volume} if volume else {"directory": directory}


def mounted(path: str, **mount: Any) -> dict[str, Any]:
    return {
        "volumes": [{"name": "all", **CLAIM}],
        "volumeMounts": [{"name": "all", "mountPath": path, **mount}],
    }


NFS = {"nfs": {"server": "s", "path": "/x"}}


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        pytest.param(on("/ckpt"), on("/ckpt"), True, id="claim"),
        pytest.param(on("/ckpt"), on("/ckpt/"), True, id="spelling"),
        pytest.param(on("/ckpt"), on("/elsewhere"), True, id="each mounts the claim itself, under another path"),
        pytest.param(on("/ckpt/{name}"), on("/ckpt/{name}"), False, id="placeholder"),
        pytest.param(on("/ckpt/{name}"), on("/ckpt/{uid}"), False, id="two placeholders"),
        pytest.param(on("/ckpt"), on("/ckpt", {"persistentVolumeClaim": {"claimName": "b"}}), False, id="other claim"),
        pytest.param(on("/ckpt", NFS), on("/ckpt", NFS), True, id="nfs"),
        pytest.param(on("gs://b/a", None), on("gs://b/a/", None), True, id="bucket"),
        pytest.param(on("gs://b/a", None), on("gs://b/c", None), False, id="other folder of a bucket"),
        pytest.param(on("/tmp/x", None), on("/tmp/x", None), False, id="no volume: each pod has its own directory"),
        pytest.param(on("/c", {"emptyDir": {}}), on("/c", {"emptyDir": {}}), False, id="emptyDir"),
    ],
)
def test_jobs_are_compared_by_their_place_on_storage(one: Any, other: Any, same: bool) -> None:
    alone: Any = {"strategy": "OneDevice", "worker": {"replicas": 1}}  # several pods need a shared volume
    jobs = stored(raw("a", one, **alone), raw("b", other, **alone))
    assert first(jobs, "b") == ("a" if same else "")


def test_a_directory_below_a_mounted_volume_is_found_too() -> None:
    a = raw("a", on("/data/x", None), **mounted("/data"))
    assert first(stored(a, raw("b", on("/m", None), **mounted("/m", subPath="x"))), "b") == "a"
    assert first(stored(a, raw("b", on("/data/y", None), **mounted("/data"))), "b") == ""


def exporting(directory: str = "", **fields: Any) -> dict[str, Any]:
    """Return `training` of a job that exports."""
    return {"training": {**TRAINING, "export": {**({"directory": directory} if directory else {}), **fields}}}


MODELS = {"persistentVolumeClaim": {"claimName": "models"}}
ON_MODELS: dict[str, Any] = {
    "volumes": [{"name": "models", **MODELS}],
    "volumeMounts": [{"name": "models", "mountPath": "/models"}],
}
OWN = on("/ckpt/{name}")


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        pytest.param(
            raw("a", OWN, **exporting("/models/x"), **ON_MODELS),
            raw("b", OWN, **exporting("/models/x/"), **ON_MODELS),
            ("training.export.directory", "/models/x on the claim models", "training.export.directory"),
            id="export directories on a volume",
        ),
        pytest.param(
            raw("a", OWN, **exporting("gs://models/x")),
            raw("b", OWN, **exporting("gs://models//x/")),
            ("training.export.directory", "gs://models//x", "training.export.directory"),
            id="export directories in a bucket",
        ),
        pytest.param(
            raw("a", on("s3://b/x", None)),
            raw("b", OWN, **exporting("s3://b/x")),
            ("training.export.directory", "s3://b/x", "checkpoint.directory"),
            id="it exports to the other's checkpoints",
        ),
        pytest.param(
            raw("a", OWN, **exporting("s3://b/x")),
            raw("b", on("s3://b/x", None)),
            ("checkpoint.directory", "s3://b/x", "training.export.directory"),
            id="its checkpoints are where the other exports",
        ),
        pytest.param(
            raw("a", OWN, **exporting()),
            raw("b", OWN, **exporting("/m/a/export"), **mounted("/m")),
            ("training.export.directory", "/m/a/export on the claim ckpt", "training.export.directory"),
            id="it exports to the other's default",
        ),
        pytest.param(
            raw("a", on("/ckpt"), **exporting()),
            raw("b", on("/ckpt"), **exporting()),
            ("checkpoint.directory", "/ckpt on the claim ckpt", "checkpoint.directory"),
            id="defaults in one checkpoint directory",
        ),
        pytest.param(
            raw("a", OWN, **exporting("/models/{name}"), **ON_MODELS),
            raw("b", OWN, **exporting("/models/{name}"), **ON_MODELS),
            None,
            id="placeholders, as in the trials of a sweep",
        ),
        pytest.param(raw("a", OWN, **exporting()), raw("b", OWN, **exporting()), None, id="defaults"),
    ],
)
def test_jobs_are_compared_by_all_directories_that_they_write(
    one: dict[str, Any], other: dict[str, Any], expected: tuple[str, str, str] | None
) -> None:
    found = user(stored(one, other), "b")
    assert (found and (found.written.field, found.written.place, found.field)) == expected


def test_the_best_model_of_a_program_is_where_the_evaluator_writes_it() -> None:
    """Given two jobs whose evaluators mount one volume for exports; then the second waits only if it exports there."""
    evaluated: dict[str, Any] = {
        "evaluation": {"mode": "Continuous", "metric": "accuracy", "goal": "Maximize"},
        "evaluator": {"volumes": ON_MODELS["volumes"], "volumeMounts": ON_MODELS["volumeMounts"]},
        "worker": {
            "replicas": 2,
            "volumes": [{"name": "own", "persistentVolumeClaim": {"claimName": "own"}}],
            "volumeMounts": [{"name": "own", "mountPath": "/models", "subPathExpr": "$(POD_NAME)"}],
        },
    }
    best, final = (exporting("/models/x", which=[which]) for which in ("Best", "Final"))
    assert first(stored(raw("a", OWN, **evaluated, **best), raw("b", OWN, **evaluated, **best)), "b") == "a"
    assert first(stored(raw("a", OWN, **evaluated, **best), raw("b", OWN, **evaluated, **final)), "b") == ""


def test_other_namespaces_evaluations_and_jobs_of_other_controllers_do_not_count() -> None:
    there = on("/ckpt")
    foreign = raw("a", there, runPolicy={"managedBy": "kueue.x-k8s.io/multikueue"})
    for other in (raw("a", there, namespace="other"), raw("a", there, task="Evaluate"), foreign, raw("a", None)):
        assert first(stored(other, raw("b", there)), "b") == ""


OLD, NEW = "2029-01-01T00:00:00Z", "2031-01-01T00:00:00Z"


def state(kind: str, status: str, reason: str) -> dict[str, Any]:
    """Return the status of a job that has created pods once, with a condition."""
    phase = {"phase": kind} if kind in {"Failed", "Succeeded"} else {}
    condition = {"type": kind, "status": status, "reason": reason} | STATED
    return {**FIRST_ATTEMPT, **phase, "conditions": [condition]}


RUNNING = state("PodsReady", "True", "AllReplicasRunning")
SUSPENDED = state("Suspended", "True", "Suspended")
SUSPEND = {"runPolicy": {"suspend": True}}


@pytest.mark.parametrize(
    ("created", "spec", "status", "comes_first"),
    [
        pytest.param(OLD, {}, RUNNING, True, id="it runs"),
        pytest.param(NEW, {}, RUNNING, True, id="it runs, and is newer: this one was suspended before"),
        pytest.param(OLD, {}, state("PodsReady", "False", "Restarting"), True, id="its next attempt begins soon"),
        pytest.param(OLD, {}, {}, True, id="it is older and begins"),
        pytest.param(NEW, {}, {}, False, id="it is newer and begins: it waits for this one"),
        pytest.param(NEW, {}, state("PodsReady", "False", "CheckpointDirectoryInUse"), False, id="it waits"),
        pytest.param(NEW, {}, state("PodsReady", "False", "ExportDirectoryInUse"), False, id="it waits to export"),
        pytest.param(OLD, SUSPEND, {}, False, id="it is suspended and has not begun"),
        pytest.param(OLD, SUSPEND, SUSPENDED, False, id="it is suspended"),
        pytest.param(OLD, {}, state("Failed", "True", "Bug"), False, id="it has failed"),
        pytest.param(OLD, {}, state("Succeeded", "True", "Completed"), False, id="it has succeeded"),
    ],
)
@pytest.mark.parametrize(
    "there",
    [{"checkpoint": on("/ckpt")}, {"checkpoint": OWN} | exporting("s3://models/x")],
    ids=["checkpoints", "exports"],
)
def test_of_two_jobs_with_one_directory_one_comes_first(
    there: dict[str, Any], created: str, spec: dict[str, Any], status: dict[str, Any], comes_first: bool
) -> None:
    jobs = stored(raw("a", created=created, **there, **spec) | {"status": status}, raw("b", **there))
    assert first(jobs, "b") == ("a" if comes_first else "")


def test_a_job_waits_until_all_its_directories_are_free() -> None:
    """Given a job whose checkpoints one job writes, and whose exports another; then it waits for both."""
    ckpt = raw("a", on("/ckpt")) | {"status": RUNNING}
    export = raw("c", OWN, **exporting("s3://models/x")) | {"status": RUNNING}
    jobs = stored(ckpt, raw("b", on("/ckpt"), **exporting("s3://models/x")), export)
    assert first(jobs, "b") == "a"
    jobs.on_delete(ckpt)
    assert first(jobs, "b") == "c"
    jobs.on_delete(export)
    assert first(jobs, "b") == ""


def test_a_job_that_is_deleted_or_changed_is_no_user_any_more() -> None:
    jobs = JobCache()
    jobs.upsert(raw("a", on("/ckpt"), created="2031-01-01T00:00:00Z"))
    other = raw("b", on("/ckpt"))
    jobs.upsert(other)
    assert first(jobs, "a") == "b"
    moved = raw("b", on("/ckpt/{name}"))
    moved["metadata"] |= {"generation": 2, "resourceVersion": "6"}
    jobs.upsert(moved)
    assert first(jobs, "a") == ""
    back = raw("b", on("/ckpt"))
    back["metadata"] |= {"generation": 3, "resourceVersion": "7"}
    jobs.upsert(back)
    assert first(jobs, "a") == "b"
    jobs.on_delete(back | {"metadata": back["metadata"] | {"resourceVersion": "8"}})
    assert first(jobs, "a") == ""


def test_the_older_of_two_jobs_is_known_also_if_they_were_created_in_the_same_second() -> None:
    jobs = JobCache()
    for each in (raw("a", on("/ckpt")), raw("b", on("/ckpt")), raw("c", on("/ckpt"), created="2029-01-01T00:00:00Z")):
        jobs.upsert(each)
    assert first(jobs, "b") == "c", "the oldest of those that wait"
    assert first(jobs, "c") == ""
    jobs.on_delete(raw("c", on("/ckpt")))
    assert first(jobs, "b") == "a"
