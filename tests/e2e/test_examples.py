"""Every example on real pods: it succeeds, and shows what its first lines promise.

Learning is judged with a wide margin: asynchronous training ends elsewhere each time.
"""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import pytest
from support import examples
from support.api import Json
from support.e2e import Cluster
from support.polling import wait_for

from tfdist_demo import example_data, target

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(5400)]

WITNESSES: Final = ("parameter_server_script/job.yaml", "penguins.yaml")
"""What `make test-e2e` runs; `make test-long` runs all."""
NEEDS: Final = {"evaluate.yaml": "all_reduce.yaml"}
"""Whose checkpoints an example reads."""
RUNNABLE: Final = [name for name in examples.MANIFESTS if not examples.needs_image(name)]
"""Those in the trainer's image; tests/trainer/test_search_examples.py runs the others without a cluster."""
AT_ONCE: Final = 3
"""As many as two cores can start without one of them waiting for long."""
HANGS_SECONDS: Final = 2400
"""No example takes so long, also on a machine that has other work."""
ENDED: Final = frozenset({"Succeeded", "Failed", "Invalid"})
CHANCE_OF_TEN: Final = 0.1


@dataclass(frozen=True, slots=True)
class Run:
    """An example that has ended."""

    status: Json
    log: str
    """Of the replica that leads, in its last attempt."""

    @property
    def final(self) -> Json:
        """Its evaluation."""
        found: Json = self.status["evaluation"]["final"]
        return found


def run(cluster: Cluster, name: str) -> Run:
    job = examples.job(name)["metadata"]["name"]
    cluster.delete_job(job)
    cluster.kubectl.run("apply", "-f", "-", stdin=examples.placed(cluster.kubectl, name))
    wait_for(f"{name} to end", lambda: cluster.job(job).get("status", {}).get("phase") in ENDED, seconds=HANGS_SECONDS)
    leader = min(cluster.pods(job), key=place)
    log = cluster.kubectl.run("logs", f"--namespace={cluster.namespace}", leader["metadata"]["name"])
    return Run(cluster.job(job)["status"], log)


def place(pod: Json) -> tuple[bool, int, str]:
    """Where a pod comes among those of its job: trainers before evaluators, the last attempt first, the chief first."""
    labels = pod["metadata"]["labels"]
    return labels["tfdist.dev/role"].startswith("evaluat"), -int(labels["tfdist.dev/attempt"]), pod["metadata"]["name"]


@pytest.fixture(scope="module")
def runs(cluster: Cluster, images: dict[str, str], request: pytest.FixtureRequest) -> Iterator[dict[str, Run]]:
    """All of them or the witnesses, some at a time."""
    chosen = target.choose()
    example_data.prepare_volume(
        cluster.kubectl, images["trainer"], storage_class=chosen.storage_class, access_mode=chosen.access_mode
    )
    names = WITNESSES if request.config.option.markexpr == "not long" else RUNNABLE
    first = [name for name in names if name not in NEEDS]
    try:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            ended = dict(zip(first, pool.map(lambda name: run(cluster, name), first), strict=True))
            later = [name for name in names if name in NEEDS]
            yield ended | dict(zip(later, pool.map(lambda name: run(cluster, name), later), strict=True))
    finally:
        for name in names:
            cluster.delete_job(examples.job(name)["metadata"]["name"])


@pytest.mark.long
@pytest.mark.parametrize("name", RUNNABLE)
def test_an_example_succeeds(runs: dict[str, Run], name: str) -> None:
    assert runs[name].status["phase"] == "Succeeded", (runs[name].status, runs[name].log[-2000:])


@pytest.mark.long
@pytest.mark.parametrize("name", ["all_reduce.yaml", "parameter_server.yaml", "global_batch.yaml", "mirrored.yaml"])
def test_images_are_learned_and_each_is_tested_once(runs: dict[str, Run], name: str) -> None:
    assert runs[name].final["examples"] == 10_000
    assert runs[name].final["metrics"]["accuracy"] > 6 * CHANCE_OF_TEN


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("parameter_server_script/job.yaml", 800),
        pytest.param("custom_loop/job.yaml", 234, marks=pytest.mark.long),
    ],
)
def test_a_script_learns_and_its_one_line_is_seen(runs: dict[str, Run], name: str, steps: int) -> None:
    progress = runs[name].status["progress"]
    assert progress["step"] == steps
    assert progress["metrics"]["accuracy"] > 6 * CHANCE_OF_TEN


@pytest.mark.long
def test_a_script_that_knows_nothing_of_the_project_learns(runs: dict[str, Run]) -> None:
    [accuracy] = re.findall(r"^accuracy (\S+)$", runs["keras_fit/job.yaml"].log, re.MULTILINE)
    assert float(accuracy) > 6 * CHANCE_OF_TEN


def test_the_script_divides_its_largest_variable_over_both_parameter_servers(runs: dict[str, Run]) -> None:
    log = runs["parameter_server_script/job.yaml"].log
    assert set(re.findall(r"\(392, 128\) on /job:ps/replica:0/task:(\d)", log)) == {"0", "1"}


@pytest.mark.long
def test_asynchronous_steps_have_one_workers_examples_and_synchronous_ones_those_of_both(runs: dict[str, Run]) -> None:
    steps = {name: runs[f"{name}.yaml"].status["progress"]["step"] for name in ("all_reduce", "parameter_server")}
    assert steps == {"all_reduce": 2 * 235, "parameter_server": 2 * 469}


@pytest.mark.long
def test_an_evaluation_of_its_own_finds_what_the_one_after_training_found(runs: dict[str, Run]) -> None:
    own, after = runs["evaluate.yaml"].final, runs["all_reduce.yaml"].final
    assert own["examples"] == 10_000
    assert own["metrics"]["accuracy"] == pytest.approx(after["metrics"]["accuracy"], rel=1e-6)
    assert {"top_2", "precision", "recall"} <= set(own["metrics"])


@pytest.mark.long
def test_a_fixed_global_batch_is_shared_by_the_workers(runs: dict[str, Run]) -> None:
    assert runs["global_batch.yaml"].status["progress"]["step"] == 235, "60,000 examples in steps of 256"


@pytest.mark.long
@pytest.mark.parametrize("name", ["partitioned.yaml", "several_volumes.yaml"])
def test_every_example_is_found_wherever_it_lies(runs: dict[str, Run], name: str) -> None:
    assert re.search(r"train-start .*examples=60000", runs[name].log)


def test_penguins_are_classified_and_measured_by_several_metrics(runs: dict[str, Run]) -> None:
    metrics = runs["penguins.yaml"].final["metrics"]
    assert {"loss", "accuracy", "precision", "recall", "f1", "auc"} <= set(metrics)
    assert metrics["accuracy"] > 0.7, "the most frequent species makes 0.44"


@pytest.mark.long
def test_the_classes_of_reviews_are_learned_and_the_best_checkpoint_is_known(runs: dict[str, Run]) -> None:
    best, final = runs["reviews.yaml"].status["evaluation"]["best"], runs["reviews.yaml"].final
    assert (best["examples"], final["examples"]) == (2_699, 2_699)
    assert best["metrics"]["auc"] > 0.6, "chance is 0.5"
    assert best["metrics"]["auc"] >= final["metrics"]["auc"]


@pytest.mark.long
def test_a_recommender_ranks_what_a_user_takes_above_random_items(runs: dict[str, Run]) -> None:
    ended = runs["recommender/job.yaml"]
    assert ended.status["progress"]["step"] == 2 * 782
    assert ended.final["examples"] == 40_000
    assert ended.final["metrics"]["auc"] > 0.7, "the popularity of items alone reaches 0.68"


@pytest.mark.long
def test_a_residual_network_learns_from_encoded_images(runs: dict[str, Run]) -> None:
    ended = runs["resnet50/job.yaml"]
    assert ended.status["progress"]["step"] == 470
    assert ended.final["examples"] == 2_000
    assert ended.final["metrics"]["accuracy"] > 5 * CHANCE_OF_TEN
    assert ended.final["metrics"]["top_5"] > ended.final["metrics"]["accuracy"]


@pytest.mark.long
def test_a_transformer_learns_the_classes_of_reviews(runs: dict[str, Run]) -> None:
    final = runs["transformer/job.yaml"].final
    assert final["examples"] == 2_699
    assert final["metrics"]["auc"] > 0.65, "chance is 0.5"


@pytest.mark.long
def test_a_lost_worker_costs_a_restart_and_no_example(runs: dict[str, Run]) -> None:
    ended = runs["resume/job.yaml"]
    assert ended.status["restarts"]["counted"] == 1
    [cause] = [failure for failure in ended.status["failures"] if failure["rootCause"]]
    assert (cause["role"], cause["index"], cause["reason"]) == ("worker", 1, "ApplicationError")
    epochs = dict(re.findall(r"epoch epoch=(\d) .*balance=(\S+)", ended.log))
    assert epochs == {"1": "0", "2": "0", "3": "0"}, "also in the interrupted epoch each example once"


@pytest.mark.long
def test_the_settings_of_runtime_are_logged(runs: dict[str, Run]) -> None:
    assert "devices CPU=2" in runs["mirrored.yaml"].log


@pytest.mark.long
def test_every_worker_has_a_run_for_tensorboard(runs: dict[str, Run], cluster: Cluster) -> None:
    assert runs
    names = cluster.inside("ls", "/volume/checkpoints/all-reduce/tensorboard").split()
    assert {"train", "worker-0", "worker-1"} <= set(names)
