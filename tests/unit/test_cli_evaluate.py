"""The job that `tfdist evaluate` makes of another one."""

from typing import Any

import pytest
from support.factories import CHECKPOINT, RESULT, UID, manifest
from support.samples import SAMPLES, sample

from tfdist.client.errors import NotPossible
from tfdist.client.evaluation_job import checkpoint_name, evaluation_job
from tfdist.client.job import Job
from tfdist.client.submission import check
from tfdist.contract import Role
from tfdist.render.template import main_container, role_template
from tfdist.validation import parse
from tfdist_trainer.checkpoint import CheckpointReader

Json = dict[str, Any]

LAST: Json = {"progress": {"lastCheckpoint": {"step": 40, "path": "/ckpt/fashion/checkpoint-000000040"}}}
EVALUATED: Json = LAST | {
    "evaluation": {"best": RESULT, "latest": RESULT | {"step": 20, "checkpoint": "/elsewhere/20"}}
}
VOLUME: Json = {"persistentVolumeClaim": {"claimName": "ckpt"}}


def stored(status: Json = LAST, without: Any = (), **spec: Any) -> Job:
    """Return a job as a cluster has it, with checkpoints."""
    return Job(manifest(without=without, **{"checkpoint": CHECKPOINT, **spec}) | {"status": status})


def test_the_job_has_the_program_its_data_and_storage_and_nothing_that_only_training_has() -> None:
    # given
    volumes: Json = {
        "volumes": [{"name": "data", "emptyDir": {}}],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    training = manifest()["spec"]["training"]
    job = stored(
        training=training | {"export": {"formats": ["Keras"]}},
        checkpoint={"directory": "/ckpt/fashion", "volume": VOLUME, "everySteps": 5, "keep": 2},
        evaluation={"mode": "Both", "metric": "loss", "goal": "Minimize", "replicas": 3, "earlyStopping": {}},
        evaluator={"replicas": 1},
        tensorBoard={},
        runPolicy={"suspend": True, "standby": True, "backoffLimit": 1},
        scheduling={"queue": "team", "minAvailable": 2},
        image="own:1",
        **volumes,
    )
    # when
    made = evaluation_job(job)
    # then
    assert made["metadata"] == {"generateName": "fashion-evaluation-", "namespace": "team"}
    assert made["spec"] == volumes | {
        "task": "Evaluate",
        "worker": {"replicas": 3},
        "image": "own:1",
        "training": training,
        "checkpoint": {"directory": "/ckpt/fashion", "volume": VOLUME, "restore": "Latest"},
        "evaluation": {"metric": "loss", "goal": "Minimize"},
        "runPolicy": {"backoffLimit": 1},
        "scheduling": {"queue": "team"},
    }


def test_placeholders_stand_for_the_evaluated_job_and_its_volume_stays_at_the_same_path() -> None:
    # given
    checkpoint = {"directory": "/ckpt/{namespace}/{name}-{uid}", "volume": VOLUME}
    job = stored(checkpoint=checkpoint)
    # when
    made = evaluation_job(job, name="result")
    # then
    assert made["spec"]["checkpoint"]["directory"] == f"/ckpt/team/fashion-{UID}"
    mounts = {
        mount["mountPath"]: volume["persistentVolumeClaim"]
        for parsed in (parse(dict(job.manifest)), parse(made))
        for template in [role_template(parsed, Role.WORKER)]
        for mount in main_container(template)["volumeMounts"]
        for volume in template["spec"]["volumes"]
        if volume["name"] == mount["name"]
    }
    assert mounts == {"/ckpt": {"claimName": "ckpt"}}


def test_a_mount_of_the_job_at_the_path_of_the_volume_takes_precedence_as_before() -> None:
    mount = {"name": "own", "mountPath": "/ckpt"}
    made = evaluation_job(stored(volumes=[{"name": "own"} | VOLUME], volumeMounts=[mount]))

    assert made["spec"]["volumeMounts"] == [mount]


@pytest.mark.parametrize(
    ("checkpoint", "restore"),
    [
        pytest.param("latest", "Latest", id="the newest"),
        pytest.param("best", "/ckpt/fashion/10", id="the best evaluated"),
        pytest.param("40", "/ckpt/fashion/checkpoint-000000040", id="a step in the status"),
        pytest.param("20", "/elsewhere/20", id="a step in a result"),
        pytest.param("30", "checkpoint-000000030", id="any other step: by the name in the directory"),
    ],
)
def test_the_chosen_checkpoint_is_restored(checkpoint: str, restore: str) -> None:
    made = evaluation_job(stored(EVALUATED), checkpoint=checkpoint)

    assert made["spec"]["checkpoint"]["restore"] == restore


def test_the_name_of_a_checkpoint_is_that_of_the_trainer(tmp_path: Any) -> None:
    assert CheckpointReader(tmp_path).path_of(4690).name == checkpoint_name(4690)


def test_roles_become_workers_and_parameter_servers_are_not_needed() -> None:
    job = stored(strategy="ParameterServer", chief={"replicas": 1, "image": "a"}, ps={"replicas": 2},
                 worker={"replicas": 3, "image": "b"})  # fmt: skip

    spec = evaluation_job(job)["spec"]

    assert spec["worker"] == {"replicas": 4, "image": "b"}
    assert not {"chief", "ps", "strategy"} & spec.keys()


def test_a_job_with_a_chief_alone_is_evaluated_with_the_pod_of_the_chief() -> None:
    spec = evaluation_job(stored(without=["worker"], chief={"replicas": 1, "image": "a"}), workers=2)["spec"]

    assert spec["worker"] == {"replicas": 2, "image": "a"}


def test_labels_of_the_user_are_kept_and_those_of_tfdist_are_not() -> None:
    job = manifest(checkpoint=CHECKPOINT) | {"status": LAST}
    job["metadata"]["labels"] = {"team": "vision", "tfdist.dev/batch": "sweep"}

    assert evaluation_job(Job(job))["metadata"]["labels"] == {"team": "vision"}


def test_a_long_name_leaves_room_for_the_generated_characters() -> None:
    job = manifest("a" * 45, checkpoint=CHECKPOINT) | {"status": LAST}

    assert len(evaluation_job(Job(job))["metadata"]["generateName"]) == 40


@pytest.mark.parametrize(
    ("job", "checkpoint", "message"),
    [
        (stored(training={"script": "/app/train.py"}), "latest", "runs a script, not a training.program"),
        (stored(without=["training"], image="own:1"), "latest", "runs an image or command of its own"),
        (stored(checkpoint=None), "latest", "writes no checkpoints to evaluate"),
        (stored({}), "latest", r"has no checkpoint yet \(phase Pending\)"),
        (stored({}), "30", "has no checkpoint yet"),
        (stored(), "best", "has no best checkpoint: none has been evaluated yet"),
        (stored(), "last", "--checkpoint last: write a step, latest or best"),
        (stored(), "-3", "--checkpoint -3: write a step"),
    ],
)
def test_what_cannot_be_evaluated_is_one_line_with_the_reason(job: Job, checkpoint: str, message: str) -> None:
    with pytest.raises(NotPossible, match=message) as rejected:
        evaluation_job(job, checkpoint=checkpoint)

    assert "\n" not in str(rejected.value)


EVALUABLE = [
    name
    for name in SAMPLES
    if (sample(name)["spec"].get("training") or {}).get("program")
    and sample(name)["spec"].get("checkpoint")
    and "eval" in (sample(name)["spec"]["training"].get("config") or {}).get("data", {})
]


@pytest.mark.parametrize("name", EVALUABLE)
def test_each_sample_with_checkpoints_and_evaluation_data_can_be_evaluated(name: str) -> None:
    found = sample(name)
    found["metadata"] |= {"namespace": "team", "uid": UID}

    check(evaluation_job(Job(found | {"status": LAST}), name="result"))


def test_samples_of_jobs_that_train_and_of_one_that_evaluates_are_among_them() -> None:
    assert {"evaluation-continuous", "evaluate-only"} <= set(EVALUABLE)
