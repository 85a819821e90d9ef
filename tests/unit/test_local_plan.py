"""A job prepared for this machine: its processes, their commands, environments and folders."""

import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from support.factories import manifest
from support.samples import SAMPLES, sample

from tfdist.contract import JOB_ENV, LAUNCH_PORT_ENV, TF_CONFIG_ENV, LaunchSettings, ReplicaJob
from tfdist.local.job import CannotRunHere, LocalJob, Machine
from tfdist.local.replica_plan import ReplicaPlan
from tfdist.local.volumes import Sources
from tfdist.render.gang import gangs
from tfdist.render.names import hostname
from tfdist.validation import parse

STATE = Path("/here/.tfdist/job")


def prepared(
    document: Mapping[str, Any],
    *,
    entry_point: tuple[str, ...] = (),
    volumes: Mapping[str, str] | None = None,
    config_maps: Mapping[str, Mapping[str, Any]] | None = None,
    environ: Mapping[str, str] | None = None,
    gpus: tuple[str, ...] = (),
    launcher: bool = False,
) -> LocalJob:
    job = parse({**document, "metadata": {**document["metadata"], "uid": "local"}})
    named = {name: Path(folder) for name, folder in (volumes or {}).items()}
    machine = Machine("box", environ or {}, entry_point, gpus, launcher)
    ports = itertools.count(40001)
    return LocalJob(job, Sources(STATE, named, config_maps or {}), machine, lambda: next(ports))


def alone(**spec: Any) -> dict[str, Any]:
    """Return a job of one replica that runs the command of `spec`, and no built-in program."""
    document = manifest(**({"worker": {"replicas": 1}} | spec))
    if "training" not in spec:
        del document["spec"]["training"]
    return document


def rejection(document: Mapping[str, Any], **given: Any) -> str:
    with pytest.raises(CannotRunHere) as rejected:
        prepared(document, **given)
    return str(rejected.value)


NEEDS: dict[str, dict[str, Any] | None] = {
    "own-class-from-configmap": {"config_maps": {"digits": {"data": {"digits.py": "class Digits: ..."}}}},
    "secrets-in-env": None,
}
"""Additional input of a sample; None: it cannot run without a cluster."""


@pytest.mark.parametrize("name", SAMPLES)
def test_every_sample_that_needs_no_cluster_is_prepared(name: str) -> None:
    given = NEEDS.get(name, {})
    if given is None:
        assert "TRACKER_TOKEN" in rejection(sample(name), entry_point=("train",))
        return
    made = prepared(sample(name), entry_point=("train",), **given)
    job = parse(sample(name))
    members = [member for gang in gangs(job) for member in gang.members]
    assert list(made.replicas) == [hostname(member.role, member.index) for member in members]
    ports = [replica.report_port for replica in made.replicas.values()]
    assert len(set(ports)) == len(ports)
    for replica in made.replicas.values():
        ReplicaJob.model_validate_json(replica.environment[JOB_ENV])
        assert ".svc" not in json.dumps(dict(replica.environment))
        assert replica.command


def test_tf_config_has_local_addresses_of_the_gang_without_the_evaluator() -> None:
    made = prepared(manifest(chief={}, worker={"replicas": 2}, evaluator={}, command=["train"]))
    configs = {name: json.loads(each.environment[TF_CONFIG_ENV]) for name, each in made.replicas.items()}
    cluster = configs["chief-0"]["cluster"]
    assert {role: len(addresses) for role, addresses in cluster.items()} == {"chief": 1, "worker": 2}
    addresses = [address for role in cluster.values() for address in role]
    assert len(set(addresses)) == 3
    assert all(address.startswith("127.0.0.1:4") for address in addresses)
    assert configs["worker-1"] == {"cluster": cluster, "task": {"type": "worker", "index": 1}}
    assert configs["evaluator-0"]["cluster"].items() > cluster.items()


def test_a_single_replica_gets_no_tf_config() -> None:
    [only] = prepared(alone(command=["train"])).replicas.values()
    assert TF_CONFIG_ENV not in only.environment


def test_paths_below_mounts_become_folders_in_every_text_of_the_job() -> None:
    made = prepared(
        alone(
            training={
                "program": "image_classification",
                "config": {"data": {"train": ["/data/a-*.npz", "/database/b"]}},
            },
            checkpoint={"directory": "/ckpt/{name}", "volume": {"persistentVolumeClaim": {"claimName": "saved"}}},
            volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "flowers"}}],
            volumeMounts=[{"name": "data", "mountPath": "/data", "subPath": "v2"}],
            env=[{"name": "EXTRA", "value": "gs://bucket/data:/data/x"}, {"name": "PLACE", "value": "/data"}],
            args=["--out=/ckpt/out", "$(PLACE)/y", "$$(PLACE)"],
        ),
        volumes={"flowers": "/srv/flowers"},
    )
    [worker] = made.replicas.values()
    replica_job = ReplicaJob.model_validate_json(worker.environment[JOB_ENV])
    assert replica_job.training is not None
    assert replica_job.checkpoint is not None
    assert replica_job.training.config["data"]["train"] == ["/srv/flowers/v2/a-*.npz", "/database/b"]
    assert replica_job.checkpoint.directory == f"{STATE}/volumes/saved/fashion"
    assert worker.environment["EXTRA"] == "gs://bucket/data:/srv/flowers/v2/x"
    assert worker.command[-3:] == (f"--out={STATE}/volumes/saved/out", "/srv/flowers/v2/y", "$(PLACE)")


def test_an_option_for_an_unknown_volume_is_rejected_with_the_known_ones() -> None:
    message = rejection(alone(command=["x"], volumes=[{"name": "data", "emptyDir": {}}]), volumes={"dta": "/srv"})
    assert "--volume dta: the job has no volume of this name; it has data" in message


def test_each_replica_has_its_own_empty_dir_and_claims_are_shared() -> None:
    made = prepared(
        manifest(
            worker={"replicas": 2},
            command=["train"],
            args=["/mine", "/ours"],
            volumes=[
                {"name": "a", "emptyDir": {}},
                {"name": "b", "persistentVolumeClaim": {"claimName": "c"}},
            ],
            volumeMounts=[{"name": "a", "mountPath": "/mine"}, {"name": "b", "mountPath": "/ours"}],
        )
    )
    mine, ours = zip(*(replica.command[1:] for replica in made.replicas.values()), strict=True)
    assert mine == (f"{STATE}/scratch/worker-0/a", f"{STATE}/scratch/worker-1/a")
    assert set(ours) == {f"{STATE}/volumes/c"}
    assert made.folders[Path(mine[0])].empty
    assert not made.folders[Path(ours[0])].empty


def test_secrets_are_rejected_unless_the_user_provides_them() -> None:
    reference = {"secretKeyRef": {"name": "tracker", "key": "token"}}
    document = alone(
        command=["x"],
        env=[{"name": "TOKEN", "valueFrom": reference}],
        volumes=[{"name": "keys", "secret": {"secretName": "keys"}}],
        volumeMounts=[{"name": "keys", "mountPath": "/keys"}],
    )
    message = rejection(document)
    assert "TOKEN comes from the cluster (secretKeyRef): set TOKEN yourself" in message
    assert "give --volume keys=FOLDER" in message
    [worker] = prepared(document, volumes={"keys": "/k"}, environ={"TOKEN": "mine"}).replicas.values()
    assert worker.environment.get("TOKEN") == "mine"


def test_source_from_a_config_map_of_the_same_file_is_in_pythonpath() -> None:
    document = alone(training={"program": "digits:Digits", "source": {"configMap": {"name": "digits"}}})
    assert "no such ConfigMap here: put the ConfigMap digits into the same file or folder" in rejection(document)
    made = prepared(document, config_maps={"digits": {"data": {"digits.py": "class Digits: ..."}}})
    [worker] = made.replicas.values()
    folder = Path(worker.environment["PYTHONPATH"])
    assert made.folders[folder].files == {"digits.py": b"class Digits: ..."}


def test_files_of_a_config_map_contain_paths_of_this_machine() -> None:
    document = alone(
        command=["python", "/code/train.py"],
        volumes=[
            {"name": "code", "configMap": {"name": "program"}},
            {"name": "data", "persistentVolumeClaim": {"claimName": "flowers"}},
        ],
        volumeMounts=[{"name": "code", "mountPath": "/code"}, {"name": "data", "mountPath": "/data"}],
    )
    files = {"data": {"train.py": "read('/data/x')"}, "binaryData": {"weights": "/w=="}}
    made = prepared(document, config_maps={"program": files}, volumes={"flowers": "/srv"})
    folder = STATE / "config" / "worker-0" / "code"
    assert made.replicas["worker-0"].command == ("python", f"{folder}/train.py")
    assert made.folders[folder].files == {"train.py": b"read('/srv/x')", "weights": b"\xff"}


def test_source_from_git_is_fetched_once_for_all_replicas() -> None:
    git = {"repository": "https://git.example.com/a.git", "directory": "src"}
    made = prepared(manifest(worker={"replicas": 2}, training={"program": "a:B", "source": {"git": git}}))
    assert made.fetch is not None
    assert made.fetch.command[-3:] == ("https://git.example.com/a.git", "HEAD", f"{STATE}/source")
    assert {each.environment["PYTHONPATH"] for each in made.replicas.values()} == {f"{STATE}/source/src"}


def test_the_entry_point_of_an_image_must_be_given() -> None:
    document = alone(image="images.example.com/train:7")
    advice = (
        "the entry point of images.example.com/train:7, which cannot be seen here: give the job a command, or name one"
    )
    assert f"{advice} here: --command 'python train.py'" in rejection(document)
    [worker] = prepared(document, entry_point=("python", "train.py")).replicas.values()
    assert worker.command == ("python", "train.py")


def test_each_setting_without_effect_is_reported_once() -> None:
    made = prepared(sample("sidecar-and-template"), entry_point=("x",))
    fields = [note.partition(":")[0] for note in made.notes]
    assert fields == ["image", "init container ship-logs", "nodeSelector"]
    [worker, _] = made.replicas.values()
    assert worker.grace_seconds == 120


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
    assert text.startswith("spec.training.config.data.train: TFDIST_JOB has training.config and takes")
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
