"""`training.script`: the command, the code and the settings of its replicas, on a cluster and on this machine."""

import base64
import json
from pathlib import Path
from typing import Any, Final

import pytest
from support.factories import EVALUATED, manifest
from support.local_plans import STATE, prepared, rejection

from tfdist import validation
from tfdist.contract import JOB_ENV, ReplicaJob
from tfdist.render.gang import gangs
from tfdist.render.installation import Installation
from tfdist.render.pod import Attempt, pod

Json = dict[str, Any]

IN_CONFIG_MAP: Final[Json] = {"script": "train.py", "source": {"configMap": {"name": "my-code"}}}
MODULE: Final[Json] = {"script": "team.train"}
LAUNCHED: Final = ["tfdist-launch", "--", "python"]


def pods(**spec: Any) -> list[Json]:
    """Return the specification of the pod of each replica of the first gang."""
    job = validation.parse(manifest(**spec))
    gang = gangs(job)[0]
    installation = Installation("tfdist/trainer:test")
    return [pod(job, gang, member, Attempt(0, 0), installation)["spec"] for member in gang.members]


def containers(**spec: Any) -> list[Json]:
    """Return the container `tensorflow` of each replica of the first gang."""
    return [made["containers"][0] for made in pods(**spec)]


def variables(container: Json) -> dict[str, str]:
    return {each["name"]: each.get("value", "") for each in container["env"]}


@pytest.mark.parametrize(
    ("training", "command"),
    [
        (IN_CONFIG_MAP, ["/opt/tfdist/source/train.py"]),
        (IN_CONFIG_MAP | {"args": ["--epochs", "3"]}, ["/opt/tfdist/source/train.py", "--epochs", "3"]),
        (
            {"script": "jobs/train.py", "source": {"git": {"repository": "https://h/a.git", "directory": "src"}}},
            ["/opt/tfdist/source/src/jobs/train.py"],
        ),
        ({"script": "/app/my train.py"}, ["/app/my train.py"]),
        (IN_CONFIG_MAP | {"script": "/app/train.py"}, ["/app/train.py"]),
        (MODULE | {"args": ["x"]}, ["-m", "team.train", "x"]),
    ],
    ids=["file", "arguments", "directory of the source", "in the image", "in the image, with a source", "module"],
)
def test_every_replica_runs_the_script_under_the_launcher(training: Json, command: list[str]) -> None:
    assert [made["command"] for made in containers(training=training)] == [[*LAUNCHED, *command]] * 2
    assert all("args" not in made for made in containers(training=training))


def test_an_image_of_the_users_runs_the_script_by_its_python() -> None:
    # given
    job = manifest(training=MODULE, worker={"replicas": 2, "image": "team/train:1"}, chief={})
    # when
    chief, *workers = containers(**job["spec"])
    # then
    assert chief["command"] == [*LAUNCHED, "-m", "team.train"]
    assert [made["command"] for made in workers] == [["python", "-m", "team.train"]] * 2
    assert not any(launch_settings(made) for made in (chief, *workers)), "the launchers need one in each role"


def test_launchers_restart_the_gang_of_a_script() -> None:
    assert all(launch_settings(made) for made in containers(training=MODULE))


def launch_settings(container: Json) -> Any:
    return json.loads(variables(container)[JOB_ENV]).get("launch")


def test_the_script_finds_modules_and_files_next_to_it() -> None:
    git = {"repository": "https://h/a.git", "directory": "src"}
    for source, folder in (
        (IN_CONFIG_MAP["source"], "/opt/tfdist/source"),
        ({"git": git}, "/opt/tfdist/source/src"),
    ):
        made = containers(training={"script": "train.py", "source": source})[0]
        assert (variables(made)["PYTHONPATH"], made["workingDir"]) == (folder, folder)


FOLDER: Final = "/opt/tfdist/source"
FROM_CONFIG_MAP: Final[Json] = {"configMapKeyRef": {"name": "settings", "key": "path"}}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"env": [{"name": "PYTHONPATH", "value": "/opt/shared:/x"}]}, f"{FOLDER}:/opt/shared:/x"),
        ({"env": [{"name": "PYTHONPATH", "value": ""}]}, FOLDER),
        ({"env": [{"name": "PYTHONPATH", "value": f"{FOLDER}:/x"}]}, f"{FOLDER}:/x"),
        ({"env": [{"name": "PYTHONPATH", "valueFrom": FROM_CONFIG_MAP}]}, f"{FOLDER}:$(TFDIST_PYTHONPATH)"),
        ({"envFrom": [{"configMapRef": {"name": "settings"}}]}, f"{FOLDER}:$(PYTHONPATH)"),
    ],
    ids=["value", "empty", "with the source", "of a ConfigMap", "envFrom"],
)
def test_the_source_comes_before_the_python_path_of_the_job(spec: Json, expected: str) -> None:
    for made in containers(training=IN_CONFIG_MAP, **spec):
        assert variables(made)["PYTHONPATH"] == expected
        others = [each["valueFrom"] for each in made["env"] if each["name"] == "TFDIST_PYTHONPATH"]
        assert others == ([FROM_CONFIG_MAP] if "TFDIST" in expected else [])


def test_the_source_comes_before_the_python_path_of_a_role_and_of_the_installation() -> None:
    # given
    own = [{"name": "LIB", "value": "/lib"}, {"name": "PYTHONPATH", "value": "$(LIB)/py"}]
    job = validation.parse(manifest(training=IN_CONFIG_MAP, chief={}, worker={"replicas": 1, "env": own}))
    path = {"name": "PYTHONPATH", "value": "/defaults"}
    defaults = {"spec": {"containers": [{"name": "tensorflow", "env": [path]}]}}
    installation = Installation("tfdist/trainer:test", pod_defaults=defaults)
    # when
    gang = gangs(job)[0]
    made = [pod(job, gang, member, Attempt(0, 0), installation)["spec"]["containers"][0] for member in gang.members]
    # then
    assert [variables(each)["PYTHONPATH"] for each in made] == [f"{FOLDER}:/defaults", f"{FOLDER}:$(LIB)/py"]


def test_the_python_path_comes_after_the_variables_that_it_refers_to() -> None:
    own = [{"name": "LIB", "value": "/lib"}, {"name": "PYTHONPATH", "value": "$(LIB)/py"}]
    names = [*variables(containers(training=IN_CONFIG_MAP, env=own)[0])]
    assert names.index("LIB") < names.index("PYTHONPATH"), "the kubelet expands references to earlier variables"


def test_without_a_source_the_python_path_is_that_of_the_job() -> None:
    assert variables(containers(training=MODULE, env=[{"name": "PYTHONPATH", "value": "/x"}])[0])["PYTHONPATH"] == "/x"
    assert "PYTHONPATH" not in variables(containers(training=MODULE)[0])


@pytest.mark.parametrize(("env", "own"), [([], ""), ([{"name": "PYTHONPATH", "value": "/opt/shared"}], "/opt/shared:")])
def test_in_a_local_run_the_python_path_of_the_shell_comes_last(env: list[Json], own: str) -> None:
    git = {"git": {"repository": "https://h/a.git"}}
    job = manifest(training=IN_CONFIG_MAP | {"source": git}, env=env)
    made = prepared(job, environ={"PYTHONPATH": "/home/me/lib"})
    for replica in made.replicas.values():
        assert replica.environment["PYTHONPATH"] == f"{STATE}/source:{own}/home/me/lib"


def test_a_program_keeps_the_working_directory_of_the_image() -> None:
    source = {"configMap": {"name": "my-code"}}
    assert "workingDir" not in containers(training={"program": "a:B", "source": source})[0]


def test_the_job_overrides_the_working_directory() -> None:
    assert containers(training=IN_CONFIG_MAP, workingDir="/data")[0]["workingDir"] == "/data"


def test_the_replicas_of_a_script_are_those_of_a_command() -> None:
    # given a job with a script, and one with its command
    script = containers(training=MODULE)
    command = containers(without=["training"], command=[*LAUNCHED, "-m", "team.train"])
    # then their containers are equal, so Keras' fit runs on several workers, and TensorFlow logs no INFO
    assert script == command
    assert ReplicaJob.model_validate_json(variables(script[0])[JOB_ENV]).training is None
    assert variables(script[0])["TF_CPP_MIN_LOG_LEVEL"] == "1"


@pytest.mark.parametrize(
    "spec",
    [
        {"strategy": "ParameterServer", "chief": {}, "ps": {"replicas": 1}},
        {"strategy": "Custom", "ps": {}},
        {"strategy": "OneDevice", "worker": {"replicas": 1}},
        EVALUATED,
        {"task": "Evaluate", "checkpoint": EVALUATED["checkpoint"]},
    ],
    ids=["parameter servers", "custom", "one device", "evaluation", "task Evaluate"],
)
def test_a_script_has_the_roles_tasks_and_strategies_of_a_command(spec: Json) -> None:
    # when
    job, made = validation.parse(manifest(training=MODULE, **spec)), containers(training=MODULE, **spec)
    # then
    assert validation.warnings(job) == []
    assert {tuple(each["command"]) for each in made} == {(*LAUNCHED, "-m", "team.train")}


def test_a_script_of_a_config_map_runs_on_this_machine_in_the_folder_of_its_files() -> None:
    # given
    document = manifest(training=IN_CONFIG_MAP | {"args": ["3"]})
    files = {"train.py": "import layers", "layers.py": ""}
    # when
    made = prepared(document, config_maps={"my-code": {"data": files}})
    # then
    folder = STATE / "config" / "worker-1" / "tfdist-source"
    worker = made.replicas["worker-1"]
    assert worker.command[1:] == (f"{folder}/train.py", "3")
    assert Path(worker.command[0]).name == "python"
    assert worker.directory == folder
    assert set(made.folders[folder].files) == set(files)
    assert made.notes == []


def test_an_init_container_unpacks_an_archive_before_the_script_starts() -> None:
    # when
    spec = pods(training={"script": "src/train.py", "source": {"archive": {"name": "my-code"}}})[0]
    # then
    (init,) = spec["initContainers"]
    assert init["command"][-3:] == ["tfdist_trainer.fetch", "/opt/tfdist/archive/code.tar.gz", "/opt/tfdist/source"]
    mounts = {mount["name"]: mount["mountPath"] for mount in init["volumeMounts"]}
    assert mounts == {"tfdist-source": "/opt/tfdist/source", "tfdist-archive": "/opt/tfdist/archive"}
    volumes = {volume.pop("name"): volume for volume in spec["volumes"]}
    assert volumes["tfdist-archive"] == {"configMap": {"name": "my-code"}}
    assert volumes["tfdist-source"] == {"emptyDir": {}}
    assert spec["containers"][0]["command"][-1] == "/opt/tfdist/source/src/train.py"
    assert spec["containers"][0]["workingDir"] == "/opt/tfdist/source"


def test_an_archive_in_the_same_file_is_unpacked_once_on_this_machine() -> None:
    # given
    document = manifest(training={"script": "train.py", "source": {"archive": {"name": "my-code"}}})
    packed = base64.b64encode(b"packed").decode()
    # when
    made = prepared(document, config_maps={"my-code": {"binaryData": {"code.tar.gz": packed}}})
    # then
    folder = STATE / "config" / "worker-0" / "tfdist-archive"
    (fetch,) = made.preparations
    assert fetch.command[-2:] == (f"{folder}/code.tar.gz", f"{STATE}/source")
    assert made.folders[folder].files == {"code.tar.gz": b"packed"}
    assert made.replicas["worker-1"].command[-1] == f"{STATE}/source/train.py"


HASH: Final = "0123456789abcdef" * 4
IN_PARTS: Final[Json] = {"archive": {"name": "my-code", "parts": 2, "sha256": HASH}}


def test_all_parts_of_an_archive_are_mounted_and_its_hash_is_compared() -> None:
    # when
    spec = pods(training={"script": "train.py", "source": IN_PARTS})[0]
    # then
    (init,) = spec["initContainers"]
    paths = ["/opt/tfdist/archive/code.tar.gz.0", "/opt/tfdist/archive/code.tar.gz.1"]
    assert init["command"][-6:] == ["tfdist_trainer.fetch", "--sha256", HASH, *paths, "/opt/tfdist/source"]
    (volume,) = (each for each in spec["volumes"] if each["name"] == "tfdist-archive")
    assert volume["projected"]["sources"] == [
        {"configMap": {"name": "my-code", "items": [{"key": "code.tar.gz", "path": "code.tar.gz.0"}]}},
        {"configMap": {"name": "my-code-1", "items": [{"key": "code.tar.gz", "path": "code.tar.gz.1"}]}},
    ]


def test_the_parts_of_an_archive_are_unpacked_on_this_machine() -> None:
    # given
    document = manifest(training={"script": "train.py", "source": IN_PARTS})
    maps = {
        name: {"binaryData": {"code.tar.gz": base64.b64encode(part).decode()}}
        for name, part in (("my-code", b"first"), ("my-code-1", b"second"))
    }
    # when
    made = prepared(document, config_maps=maps)
    # then
    folder = STATE / "config" / "worker-0" / "tfdist-archive"
    (fetch,) = made.preparations
    assert fetch.command[-3:] == (f"{folder}/code.tar.gz.0", f"{folder}/code.tar.gz.1", f"{STATE}/source")
    assert made.folders[folder].files == {"code.tar.gz.0": b"first", "code.tar.gz.1": b"second"}
    del maps["my-code-1"]
    assert "put the ConfigMap my-code-1 into the same file" in rejection(document, config_maps=maps)


def test_an_object_is_fetched_with_the_access_of_the_job() -> None:
    # given a job with credentials in variables, of a Secret, and in a file; and with settings of its own image
    env = [
        {"name": "AWS_REGION", "value": "eu-west-1"},
        {"name": "PYTHONPATH", "value": "/app"},
        {"name": "LD_LIBRARY_PATH", "value": "/app"},
    ]
    access = {
        "env": env,
        "envFrom": [{"secretRef": {"name": "s3-access"}}],
        "volumes": [{"name": "key", "secret": {"secretName": "key"}}],
        "volumeMounts": [
            {"name": "key", "mountPath": "/key", "mountPropagation": "HostToContainer"},
            {"name": "key", "mountPath": "/own", "subPathExpr": "$(TFDIST_TRIAL)"},
            {"name": "key", "mountPath": "/opt/tfdist/key"},
        ],
    }
    url = "s3://bucket/code/1.tar.gz"
    # when
    spec = pods(training={"script": "train.py", "source": {"object": {"url": url, "sha256": HASH}}}, **access)[0]
    # then
    (init,) = spec["initContainers"]
    assert init["command"][-5:] == ["tfdist_trainer.fetch", "--sha256", HASH, url, "/opt/tfdist/source"]
    assert (init["env"], init["envFrom"]) == (env[:1], access["envFrom"])
    assert init["volumeMounts"] == [
        {"name": "tfdist-source", "mountPath": "/opt/tfdist/source"},
        {"name": "key", "mountPath": "/key", "readOnly": True},
    ]


def test_an_object_is_fetched_once_on_this_machine_with_the_variables_of_the_job() -> None:
    # given
    source = {"object": {"url": "s3://bucket/1.tar.gz", "sha256": HASH}}
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    document = manifest(
        training={"script": "train.py", "source": source},
        env=[{"name": "AWS_REGION", "value": "eu-west-1"}],
        volumes=[volume],
        volumeMounts=[{"name": "data", "mountPath": "/data"}],
    )
    # when
    made = prepared(document)
    # then
    (fetch,) = made.preparations
    assert fetch.command[-4:] == ("--sha256", HASH, "s3://bucket/1.tar.gz", f"{STATE}/source")
    assert fetch.environment["AWS_REGION"] == "eu-west-1"
    emptied = {folder.path for folder in fetch.folders if folder.empty}
    assert emptied == {STATE / "source"}, "the claim is kept"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"archive": {"name": "code", "parts": 2}}, "an archive of several parts needs sha256"),
        ({"archive": {"name": "code", "parts": 17, "sha256": HASH}}, "archive.parts"),
        ({"archive": {"name": "code", "sha256": "1"}}, "must be a SHA-256"),
        ({"object": {"url": "s3://bucket/key"}}, "object.sha256"),
        ({"object": {"url": "s3://me:secret@bucket/key", "sha256": HASH}}, "must be the URL of an object"),
        ({"object": {"url": "https://host/key", "sha256": HASH}}, "must be the URL of an object"),
        ({"object": {"url": "s3://bucket/", "sha256": HASH}}, "must be the URL of an object"),
    ],
)
def test_a_source_that_cannot_be_fetched_is_invalid(source: Json, message: str) -> None:
    with pytest.raises(validation.ValidationFailed, match=message):
        validation.parse(manifest(training={"script": "train.py", "source": source}))


def test_an_archive_that_is_not_in_the_file_is_named() -> None:
    document = manifest(training={"script": "train.py", "source": {"archive": {"name": "my-code"}}})
    assert "put the ConfigMap my-code into the same file" in rejection(document)


@pytest.mark.parametrize("launcher", [False, True], ids=["processes", "in place"])
def test_a_script_from_git_runs_in_the_folder_that_was_fetched(launcher: bool) -> None:
    git = {"repository": "https://h/a.git", "directory": "src"}
    made = prepared(manifest(training={"script": "train.py", "source": {"git": git}}), launcher=launcher)
    worker = made.replicas["worker-0"]
    assert list(worker.command[:-1]) == (LAUNCHED if launcher else ["python"])
    assert (worker.command[-1], worker.directory) == (f"{STATE}/source/src/train.py", STATE / "source/src")
    (fetch,) = made.preparations
    assert fetch.directory is None, "the folder exists only after the fetch"
