"""Values of a specification are computed once for each job, and are gone with it."""

import gc
from typing import Any

from support.factories import manifest

from tfdist.api.v1 import TFDistJob
from tfdist.contract import Role
from tfdist.render.gang import gangs
from tfdist.render.per_job import PerJob
from tfdist.render.template import starts_trainer
from tfdist.validation import parse


def test_a_value_is_computed_once_for_each_job_and_again_for_an_equal_one() -> None:
    """Given two equal jobs; when the value of each is read twice; then it was computed once for each."""
    computed: list[str] = []

    def name(job: TFDistJob) -> str:
        computed.append(job.metadata.name)
        return job.metadata.name

    values: PerJob[str] = PerJob()
    jobs = [parse(manifest()), parse(manifest())]
    assert [values.get(job, name) for job in jobs * 2] == ["fashion"] * 4
    assert len(computed) == 2


def test_nothing_is_kept_of_a_job_that_is_gone() -> None:
    values: PerJob[int] = PerJob()
    job = parse(manifest())
    values.get(job, lambda _: 1)
    del job
    gc.collect()
    assert len(values) == 0


def test_a_job_with_other_labels_or_another_size_has_its_own_gangs() -> None:
    """Given a job whose gangs are known; when a copy of it has more workers; then so have its gangs."""
    job = parse(manifest())
    assert gangs(job) is gangs(job)
    worker = job.spec.worker.model_copy(update={"replicas": 3})  # type: ignore[union-attr]  # the factory has workers
    larger = job.model_copy(update={"spec": job.spec.model_copy(update={"worker": worker})})
    assert [gang.sizes() for gang in (*gangs(job), *gangs(larger))] == [{"worker": 2}, {"worker": 3}]


def test_other_defaults_of_the_installation_give_another_answer() -> None:
    """Given an installation whose default command is no trainer; when it is asked after one without; then both hold."""
    job = parse(manifest())
    shell = {"spec": {"containers": [{"name": "tensorflow", "command": ["sh"]}]}}
    defaults: list[dict[str, Any]] = [{}, shell, {}]
    assert [starts_trainer(job, Role.WORKER, given) for given in defaults] == [True, False, True]
