"""A job prepared for this machine: its processes, their commands, environments and folders."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.factories import manifest
from support.local_plans import STATE, alone, prepared, rejection
from support.samples import SAMPLES, sample

from tfdist.contract import JOB_ENV, TF_CONFIG_ENV, ReplicaJob
from tfdist.render.gang import gangs
from tfdist.render.names import hostname
from tfdist.validation import parse

NEEDS: dict[str, dict[str, Any] | None] = {
    "own-class-from-configmap": {"config_maps": {"digits": {"data": {"digits.py": "class Digits: ..."}}}},
    "own-script": {"config_maps": {"my-script": {"data": {"train.py": "import keras"}}}},
    "own-script-from-archive": {"config_maps": {"my-code": {"binaryData": {"code.tar.gz": "H4sI"}}}},
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
                "export": {},
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
    assert replica_job.export is not None
    assert replica_job.export.directory == f"{STATE}/volumes/saved/fashion/export"
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
    (fetch,) = made.preparations
    assert fetch.command[-3:] == ("https://git.example.com/a.git", "HEAD", f"{STATE}/source")
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


@pytest.mark.parametrize("scheduling", [{"gang": "Native"}, {"queue": "team-a"}], ids=str)
def test_a_gang_scheduler_is_not_waited_for(scheduling: dict[str, str]) -> None:
    made = prepared(alone(worker={"replicas": 2}, command=["run"], image="mine:1", scheduling=scheduling))
    assert made.job.spec.scheduling.gang == "None"
    assert made.job.spec.scheduling.queue is None
    assert "scheduling: there is one machine" in made.notes
