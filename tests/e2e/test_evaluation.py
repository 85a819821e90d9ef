"""Evaluation of Fashion-MNIST on real pods, held against a computation that shares no code with the trainer.

One job has an evaluator during training, which is killed twice. Another has its evaluator start when training is
over, and is evaluated by a gang of three as well, of which one is killed. Then four jobs only evaluate what that left.
"""

import json
import pathlib
import uuid
from collections.abc import Iterator

import pytest
from support.api import Json
from support.e2e import Cluster, example
from support.failing_jobs import JobNamespace
from support.nodes import send_signal
from support.polling import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

DURING, AFTER = "evaluated-during", "evaluated-after"
BY_PATH, BY_LATEST, OF_NOTHING, OF_DAMAGE = ALONE = ("by-path", "by-latest", "of-nothing", "of-damage")
FOLDER = f"late-{uuid.uuid4().hex[:6]}"
"""Checkpoints of the second job, whose evaluator has to know their place before it starts."""
LAST = "checkpoint-000000200"
VOLUME = "/volume/checkpoints"
HERE = pathlib.Path(__file__).parent
READS = "import glob, json, sys; print(json.dumps([json.load(open(path)) for path in glob.glob(sys.argv[1])]))"
PATIENCE_SECONDS = 400.0


def during() -> Json:
    """Return a job of five checkpoints, of which training keeps three and the best, with an evaluator."""
    job = example(DURING, steps=1500)
    del job["spec"]["training"]["config"]["epochs"]
    job["spec"] |= {"worker": {"replicas": 1}, "evaluation": {"mode": "Continuous"}}
    job["spec"]["checkpoint"] |= {"everySteps": 300, "keep": 3}
    return job


def after(image: str) -> Json:
    """Return a job whose evaluator waits for the end of training, before a gang of three that evaluates slowly."""
    job = alone(AFTER, 1, "Latest")
    job["spec"]["training"]["config"]["steps"] = 200
    waits = f"until test -f /ckpt/{FOLDER}/final.json; do sleep 1; done"
    first: Json = {"name": "late", "image": image, "command": ["sh", "-c", waits]}
    first["volumeMounts"] = job["spec"]["volumeMounts"]
    first["securityContext"] = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    job["spec"] |= {
        "task": "Train",
        "evaluator": {"template": {"spec": {"initContainers": [first]}}},
        "evaluation": {"mode": "Both", "replicas": 3},
    }
    return job


def alone(name: str, workers: int, restore: str) -> Json:
    """Return a job that only evaluates; one example a step, so that it takes its time."""
    job = example(name, model="mlp", batchSizePerReplica=1)
    del job["spec"]["evaluation"]
    del job["spec"]["training"]["config"]["epochs"]
    checkpoint = {"directory": f"/ckpt/{FOLDER}", "restore": restore}
    job["spec"] |= {"task": "Evaluate", "worker": {"replicas": workers}, "checkpoint": checkpoint}
    return job


@pytest.fixture(scope="module")
def jobs(cluster: Cluster, images: dict[str, str]) -> Iterator[JobNamespace]:
    jobs = JobNamespace(cluster)
    names = (DURING, AFTER, *ALONE)
    for name in names:
        cluster.delete_job(name)
    jobs.start(during())
    _kill_the_evaluator_twice(jobs)
    jobs.start(after(images["trainer"]))
    _kill_one_of_the_gang(jobs)
    for name in (AFTER, DURING):
        jobs.ended(name, PATIENCE_SECONDS)
    damaged = f"{VOLUME}/{FOLDER}/damaged"
    cluster.inside("sh", "-c", f"cp -r {VOLUME}/{FOLDER}/{LAST} {damaged} && truncate -s 100 {damaged}/variables.data*")
    restores = (f"/ckpt/{FOLDER}/{LAST}", "Latest", "checkpoint-000000007", "damaged")
    jobs.start(*(alone(*a) for a in zip(ALONE, (1, 2, 1, 1), restores, strict=True)))
    yield jobs
    for name in names:
        cluster.delete_job(name)


def _pod(jobs: JobNamespace, name: str) -> Json:
    """Return a pod once its process runs."""

    def running() -> Json | None:
        evaluator = next(
            (p for p in jobs.cluster.pods(name.rpartition("-eval")[0]) if p["metadata"]["name"] == name), {}
        )
        states = evaluator.get("status", {}).get("containerStatuses", ())
        return evaluator if any("running" in s["state"] for s in states if s["name"] == "tensorflow") else None

    pod = wait_for(f"{name} to run", running, PATIENCE_SECONDS)
    assert pod is not None
    return pod


def _checkpoints(jobs: JobNamespace) -> str:
    return f"{VOLUME}/{DURING}-{jobs.cluster.job(DURING)['metadata']['uid']}"


def _kill_the_evaluator_twice(jobs: JobNamespace) -> None:
    pod = _pod(jobs, f"{DURING}-evaluator-0")
    scored = f"ls {_checkpoints(jobs)}/evaluation 2>/dev/null | grep -c '^[0-9]*.json' || true"
    wait_for("a score", lambda: int(jobs.cluster.inside("sh", "-c", scored)) > 0, PATIENCE_SECONDS)
    send_signal(pod, "KILL")
    send_signal(_pod(jobs, f"{DURING}-evaluator-0-r1"), "KILL")


def _kill_one_of_the_gang(jobs: JobNamespace) -> None:
    pod = _pod(jobs, f"{AFTER}-evaluation-1")

    def evaluates() -> bool:
        return " evaluate-start " in jobs.cluster.kubectl.run(
            "logs", f"--namespace={jobs.cluster.namespace}", f"{AFTER}-evaluation-1"
        )

    wait_for("its evaluation", evaluates, PATIENCE_SECONDS)
    send_signal(pod, "KILL")


def _scores(jobs: JobNamespace, folder: str) -> dict[int, Json]:
    """Return the results in files of a directory by step."""
    files = jobs.cluster.inside(
        "sh", "-c", f"cat {folder}/evaluation/[0-9]*0.json | sed 's/}}{{/}}\\n{{/g'"
    ).splitlines()
    scores = [json.loads(line) for line in files]
    return {score["step"]: score for score in scores}


def _independently(jobs: JobNamespace, checkpoint: str) -> Json:
    """Return what one process finds with plain TensorFlow."""
    path = checkpoint.replace("/ckpt", VOLUME, 1)
    run = ["python", "-", path, "/volume/data/test-*.tfrecord"]
    printed = jobs.cluster.inside(*run, stdin=(HERE / "single_process.py").read_text())
    result: Json = json.loads(printed.splitlines()[-1])
    return result


def test_every_checkpoint_has_a_score_though_the_evaluator_was_killed_twice(jobs: JobNamespace) -> None:
    status, folder = jobs.ended(DURING), _checkpoints(jobs)
    assert status["phase"] == "Succeeded", jobs.described(DURING)
    there = jobs.cluster.inside("ls", folder).split()
    steps = {int(name.removeprefix("checkpoint-")) for name in there if name.startswith("checkpoint-")}
    scores = _scores(jobs, folder)
    best = json.loads(jobs.cluster.inside("cat", f"{folder}/best.json"))["step"]
    assert {900, 1200, 1500, best} <= steps <= set(scores)
    assert {score["examples"] for score in scores.values()} == {10_000}


def test_the_end_of_the_evaluator_does_not_affect_training(jobs: JobNamespace) -> None:
    status = jobs.ended(DURING)
    assert (status["attempt"], status["restarts"]["counted"]) == (0, 0)
    assert status["gangs"]["evaluator"]["counted"] == 2
    assert [f["role"] for f in status["failures"]] == ["evaluator", "evaluator"]


def test_the_best_and_the_final_result_are_those_of_an_independent_computation(jobs: JobNamespace) -> None:
    status = jobs.ended(DURING)
    best, final = status["evaluation"]["best"], status["evaluation"]["final"]
    assert final["step"] == status["progress"]["totalSteps"] == 1500, "it succeeded only with the last one scored"
    for result in (best, final):
        expected = _independently(jobs, result["checkpoint"])
        assert result["examples"] == expected["examples"] == 10_000
        assert result["metrics"]["accuracy"] == pytest.approx(expected["accuracy"], rel=1e-6)
        assert result["metrics"]["loss"] == pytest.approx(expected["loss"], rel=1e-4)
    scores = _scores(jobs, _checkpoints(jobs))
    assert best["metrics"]["accuracy"] == max(score["metrics"]["accuracy"] for score in scores.values())
    assert jobs.printed(DURING)["METRIC"] == f"accuracy={final['metrics']['accuracy']:.4f}"


def test_an_evaluator_that_starts_when_training_is_over_scores_its_last_checkpoint(jobs: JobNamespace) -> None:
    status = jobs.ended(AFTER)
    assert status["phase"] == "Succeeded", jobs.described(AFTER)
    pods = {p["metadata"]["name"]: p for p in jobs.cluster.pods(AFTER)}
    states = {name: pod["status"]["containerStatuses"][0]["state"]["terminated"] for name, pod in pods.items()}
    trained = states[f"{AFTER}-worker-0"]["finishedAt"]
    assert states[f"{AFTER}-evaluator-0"]["startedAt"] >= trained
    assert status["evaluation"]["latest"]["step"] == 200


def test_one_two_and_three_workers_give_equal_scores_though_one_of_three_was_killed(jobs: JobNamespace) -> None:
    after = jobs.ended(AFTER)
    assert after["gangs"]["evaluation"]["attempt"] == 1
    results = [after["evaluation"]["final"], after["evaluation"]["latest"]]
    results += [jobs.ended(name, PATIENCE_SECONDS)["evaluation"]["final"] for name in (BY_PATH, BY_LATEST)]
    assert [(result["step"], result["examples"]) for result in results] == [(200, 10_000)] * 4
    for result in results:
        assert result["metrics"]["accuracy"] == pytest.approx(results[0]["metrics"]["accuracy"], rel=1e-9)
        assert result["metrics"]["loss"] == pytest.approx(results[0]["metrics"]["loss"], rel=1e-5)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (OF_NOTHING, f"checkpoint.restore: /ckpt/{FOLDER}/checkpoint-000000007 does not exist"),
        (OF_DAMAGE, f"checkpoint.restore: /ckpt/{FOLDER}/damaged: variables.data-00000-of-00001 is damaged"),
    ],
)
def test_a_checkpoint_that_is_missing_or_damaged_fails_the_job_with_its_path(
    jobs: JobNamespace, name: str, message: str
) -> None:
    status = jobs.ended(name, PATIENCE_SECONDS)
    assert status["phase"] == "Failed"
    assert message in jobs.printed(name)["MESSAGE"]
