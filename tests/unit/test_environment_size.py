"""Environment variables of large jobs: Linux starts no container with a variable of more than 128 KiB."""

from typing import Any

import pytest
from support.factories import manifest

from tfdist.api.gang_status import GangStatus
from tfdist.contract import JOB_ENV, TF_CONFIG_ENV
from tfdist.render.gang import training_gang
from tfdist.render.installation import Installation
from tfdist.render.pod import Attempt, PodRenderer
from tfdist.validation import ValidationFailed, parse
from tfdist.validation.environment import MAX_VARIABLE_BYTES
from tfdist_launch.settings import read_settings
from tfdist_operator.cache.job_cache import JobCache
from tfdist_operator.webhook.admission import review

COMMAND = ["tfdist-launch", "python", "train.py"]


def variables(replicas: int, index: int, gang_status: GangStatus | None = None) -> dict[str, str]:
    """Return the generated environment variables of a worker."""
    job = parse(manifest(command=COMMAND, worker={"replicas": replicas}))
    gang = training_gang(job)
    renderer = PodRenderer(job, gang, Installation("trainer:1"), gang_status)
    made = renderer.pod(gang.members[index], Attempt(0, 0))
    env = made["spec"]["containers"][0]["env"]
    return {v["name"]: v["value"] for v in env if v["name"] in {JOB_ENV, TF_CONFIG_ENV}}


def accepted(replicas: int) -> bool:
    try:
        parse(manifest(command=COMMAND, worker={"replicas": replicas}))
    except ValidationFailed:
        return False
    return True


def test_the_largest_accepted_gang_fits_and_the_next_larger_one_does_not() -> None:
    low, high = 1, 10_000
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if accepted(middle) else (low, middle)
    assert low > 3000
    largest = {f"{name}={value}\0" for index in (0, low - 1) for name, value in variables(low, index).items()}
    assert MAX_VARIABLE_BYTES - 100 < max(map(len, largest)) <= MAX_VARIABLE_BYTES
    with pytest.raises(ValidationFailed, match=rf"spec.worker.replicas.*TF_CONFIG.*131072.*at most {low} replicas"):
        parse(manifest(command=COMMAND, worker={"replicas": high}))


@pytest.mark.parametrize("replicas", [2, 1000, 1001, 3000])
def test_the_leader_knows_all_members_with_their_attempts(replicas: int) -> None:
    history = GangStatus(last_full_restart=2, replaced={f"worker-{replicas // 2}": 7})
    found = variables(replicas, 0, history)
    assert len(found[JOB_ENV]) < MAX_VARIABLE_BYTES
    leader = read_settings({JOB_ENV: found[JOB_ENV]}, "key").launch.gang
    assert leader is not None
    assert [(str(m.role), m.index) for m in leader.members] == [("worker", i) for i in range(replicas)]
    assert [m.attempt for m in leader.members if m.attempt != 2] == [7]
    assert all(m.required_for_success for m in leader.members)


def test_the_members_of_a_gang_fit_even_if_every_second_replica_was_replaced_alone() -> None:
    """Given a gang in which no two neighbours have one attempt, when the leader's pod is created, then it can start."""
    history = GangStatus(last_full_restart=2, replaced={f"worker-{index}": 1000 + index for index in range(0, 1000, 2)})
    assert len(variables(1000, 0, history)[JOB_ENV]) < MAX_VARIABLE_BYTES


FILES = [f"/data/dt=2024-05-{day:02}/part-{part:05}-of-00100.tfrecord" for day in range(1, 31) for part in range(100)]
TABULAR = {"data": {"train": "/data/*"}, "numeric": ["x"], "classes": 2}


@pytest.mark.parametrize(
    ("changed", "path", "remedy"),
    [
        ({"data": {"train": FILES, "eval": "/e/*"}}, "data.train", "use patterns of files"),
        ({"data": {"train": "/data/*", "eval": FILES}}, "data.eval", "use patterns of files"),
        ({"categorical": {"word": [f"{n:060}" for n in range(3000)]}}, "categorical.word", "shorten this value"),
        ({"classes": [f"é{n:040}" for n in range(3000)]}, "classes", "shorten this value"),
    ],
    ids=["training files", "evaluation files", "categories", "classes that are not ASCII"],
)
def test_a_configuration_that_does_not_fit_is_an_error_of_its_largest_field(
    changed: dict[str, Any], path: str, remedy: str
) -> None:
    with pytest.raises(ValidationFailed) as caught:
        parse(manifest(training={"program": "tabular", "config": TABULAR | changed}))
    (problem,) = caught.value.problems
    assert problem.path == f"spec.training.config.{path}"
    assert problem.message.startswith("TFDIST_JOB contains training.config and takes")
    assert f"131072 bytes: {remedy}" in problem.message


@pytest.mark.parametrize("replicas", [1, 700])
def test_the_largest_accepted_configuration_fits_with_everything_that_validation_does_not_know(replicas: int) -> None:
    def job(count: int) -> dict[str, Any]:
        config = TABULAR | {"data": {"train": FILES[:count]}}
        return manifest(training={"program": "tabular", "config": config}, worker={"replicas": replicas})

    def fits(count: int) -> bool:
        try:
            parse(job(count))
        except ValidationFailed:
            return False
        return True

    low, high = 1, len(FILES)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    parsed = parse(job(low))
    gang = training_gang(parsed)
    history = GangStatus(last_full_restart=999)
    renderer = PodRenderer(parsed, gang, Installation("trainer:1", "cluster.example.org", "f" * 16), history)
    largest = len(f"{JOB_ENV}={renderer.variables(gang.members[0], 999)[JOB_ENV]}\0".encode())
    assert largest <= MAX_VARIABLE_BYTES
    assert largest > MAX_VARIABLE_BYTES - 8000


def test_the_configuration_of_a_program_of_ones_own_is_limited_too() -> None:
    config = {"words": ["word"] * 5000}
    assert parse(manifest(training={"program": "mine:Line", "config": config})).spec.training
    with pytest.raises(ValidationFailed, match=r"spec.training.config.words: TFDIST_JOB contains training.config"):
        parse(manifest(training={"program": "mine:Line", "config": {"words": ["word"] * 30_000}}))


def test_the_webhook_rejects_such_a_job_and_the_controller_holds_the_error() -> None:
    job = manifest(training={"program": "tabular", "config": TABULAR | {"data": {"train": FILES}}})
    job["metadata"] |= {"resourceVersion": "5", "generation": 1}
    (rejected,) = review(job, None, {}).problems
    store = JobCache()
    store.upsert(job)
    stored = store.read(store.all()[0])
    assert [str(problem) for problem in stored.problems] == [rejected]
    assert rejected.startswith("spec.training.config.data.train: TFDIST_JOB contains training.config")
