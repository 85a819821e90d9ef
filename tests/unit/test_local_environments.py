"""A job prepared for this machine: the environments and launchers of its processes."""

from typing import Any

import pytest
from support.factories import manifest
from support.local_plans import alone, prepared, rejection
from support.samples import sample

from tfdist.contract import JOB_ENV, LAUNCH_PORT_ENV, LaunchSettings, ReplicaJob
from tfdist.local.replica_plan import ReplicaPlan


@pytest.mark.parametrize(
    ("devices", "seen", "note"),
    [
        (("0", "1", "2"), ["0", "1", "-1"], None),
        (("0",), ["-1", "-1", "-1"], "GPUs: the job asks for 2 and this machine has 1; all replicas use CPUs"),
    ],
)
def test_replicas_get_the_gpus_they_request_exclusively_and_others_see_none(
    devices: tuple[str, ...], seen: list[str], note: str | None
) -> None:
    document = manifest(
        command=["x"],
        chief={"resources": {"limits": {"nvidia.com/gpu": 1}}},
        worker={"resources": {"limits": {"nvidia.com/gpu": 1}}},
        evaluator={},
    )
    made = prepared(document, gpus=devices)
    assert [each.environment["CUDA_VISIBLE_DEVICES"] for each in made.replicas.values()] == seen
    assert [text for text in made.notes if text.startswith("GPUs")] == ([note] if note else [])


def test_the_evaluation_gang_is_planned_with_the_task_evaluate() -> None:
    made = prepared(sample("evaluation-after-training"))
    replica_job = ReplicaJob.model_validate_json(made.replicas["evaluation-0"].environment[JOB_ENV])
    assert (replica_job.task, replica_job.role, replica_job.replicas) == ("Evaluate", "evaluation", {"evaluation": 2})


def test_launchers_have_the_addresses_of_the_gang_and_the_limits_of_the_job() -> None:
    rules = [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [3]}}]
    made = prepared(
        manifest(
            strategy="ParameterServer",
            chief={},
            ps={},
            runPolicy={"backoffLimit": 7},
            failurePolicy={"rules": rules},
            command=["train"],
        ),
        launcher=True,
    )
    chief, *others = made.replicas.values()
    assert {each.command for each in (chief, *others)} == {("tfdist-launch", "--", "train")}
    leads, *follow = [launch_settings(each) for each in (chief, *others)]
    assert leads.gang is not None
    assert (leads.gang.backoff_limit, leads.gang.rules) == (7, rules)
    assert [each.required_for_success for each in leads.gang.members] == [True, False, False, False]
    assert {each.leader for each in (leads, *follow)} == {f"127.0.0.1:{chief.environment[LAUNCH_PORT_ENV]}"}
    assert [(each.rank, each.gang) for each in follow] == [(1, None), (2, None), (3, None)]
    assert len({each.environment[LAUNCH_PORT_ENV] for each in (chief, *others)}) == 4


def launch_settings(replica: ReplicaPlan) -> LaunchSettings:
    replica_job = ReplicaJob.model_validate_json(replica.environment[JOB_ENV]).launch
    assert replica_job is not None
    return replica_job


@pytest.mark.parametrize(
    "command",
    [["tfdist-launch", "--", "train", "--cold"], ["python", "-m", "tfdist_launch", "--cold", "train", "--cold"]],
)
@pytest.mark.parametrize("launcher", [False, True], ids=["without", "in place"])
def test_the_launcher_of_a_command_is_kept_only_with_in_place(command: list[str], launcher: bool) -> None:
    (replica,) = prepared(alone(command=command), launcher=launcher).replicas.values()
    options = ["--cold"] if command[0] == "python" else []
    below = ["tfdist-launch", *options, "--"] if launcher else []
    assert list(replica.command) == [*below, "train", "--cold"]
    assert (ReplicaJob.model_validate_json(replica.environment[JOB_ENV]).launch is not None) is launcher


def test_the_members_of_a_gang_are_excluded_from_proxies_by_their_local_addresses() -> None:
    made = prepared(manifest(command=["train"], env=[{"name": "no_proxy", "value": "internal.example"}]))
    assert made.replicas["worker-0"].environment["no_grpc_proxy"] == "internal.example,localhost,127.0.0.1"


def test_a_variable_that_only_the_paths_of_this_machine_make_too_large_is_rejected() -> None:
    config = {"data": {"train": [f"/d/{number:04}.csv" for number in range(3000)]}, "numeric": ["x"]}
    document = alone(
        training={"program": "tabular", "config": config},
        volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
        volumeMounts=[{"name": "data", "mountPath": "/d"}],
    )
    assert prepared(document, volumes={"data": "/e"}).replicas
    text = rejection(document, volumes={"data": f"/{'long/' * 20}folder"})
    assert text.startswith("spec.training.config.data.train: TFDIST_JOB contains training.config and takes")
    assert "131072 bytes: use patterns of files" in text


def test_an_own_variable_that_expansion_makes_too_large_is_rejected() -> None:
    env = [{"name": "A", "value": "x" * 30_000}, {"name": "B", "value": "$(A)" * 5}]
    text = rejection(alone(command=["python", "-V"], env=env))
    assert text.startswith("spec.env: B takes 150003 bytes, and Linux limits an environment variable to 131072 bytes")


@pytest.mark.parametrize(
    ("env", "inherited", "level"),
    [
        pytest.param([], {}, "1", id="the default"),
        pytest.param([], {"TF_CPP_MIN_LOG_LEVEL": "0"}, None, id="the user's environment precedes it"),
        pytest.param(
            [{"name": "TF_CPP_MIN_LOG_LEVEL", "value": "3"}], {"TF_CPP_MIN_LOG_LEVEL": "0"}, "3", id="the job"
        ),
    ],
)
def test_the_log_level_of_tensorflow_is_a_default(env: Any, inherited: dict[str, str], level: str | None) -> None:
    local = prepared(alone(command=["python", "train.py"], env=env), environ=inherited)
    assert local.replicas["worker-0"].environment.get("TF_CPP_MIN_LOG_LEVEL") == level
