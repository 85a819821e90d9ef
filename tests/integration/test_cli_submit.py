"""`tfdist submit` and `tfdist run`, as a user with the role `edit` in one namespace, with a real API server."""

import base64
import hashlib
import io
import os
import pathlib
import random
import signal
import tarfile
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import yaml
from support import client_user
from support.api import Api, Json
from support.factories import manifest

from tfdist import Client
from tfdist.cli.commands import attach
from tfdist.cli.kinds import Reference
from tfdist.cli.main import main
from tfdist.client import creation
from tfdist.client.api_server import ApiServer
from tfdist.client.creation import CODE_OF
from tfdist.client.errors import AlreadyExists, Invalid, NoCluster

pytestmark = pytest.mark.integration

CONFIG_MAPS = "/api/v1/namespaces/{ns}/configmaps"


@pytest.fixture
def kubeconfig(api: Api, namespace: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """Return the kubeconfig of the user, which the command uses; the current folder is that of the user's code."""
    path = client_user.kubeconfig(api, namespace, tmp_path)
    (tmp_path / "code").mkdir()
    monkeypatch.chdir(tmp_path / "code")
    monkeypatch.setenv("KUBECONFIG", str(path))
    return path


def code_of(api: Api, namespace: str) -> list[Json]:
    """Return the ConfigMaps of code in a namespace."""
    items: list[Json] = api.do("GET", CONFIG_MAPS.format(ns=namespace))["items"]
    return [each for each in items if "-code-" in each["metadata"]["name"]]


def files(config_map: Json) -> set[str]:
    content = base64.b64decode(config_map["binaryData"]["code.tar.gz"])
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as archive:
        return set(archive.getnames())


def write(path: str, text: str = "print()") -> None:
    pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
    pathlib.Path(path).write_text(text)


def job_file(name: str = "fashion", **spec: Any) -> str:
    """Write a manifest as users write it, and return its path."""
    made = manifest(name, **spec)
    del made["metadata"]["uid"], made["metadata"]["namespace"]
    write("job.yaml", yaml.safe_dump(made))
    return "job.yaml"


@pytest.mark.usefixtures("kubeconfig")
def test_a_script_is_submitted_with_its_folder_which_the_job_owns(
    api: Api, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    # given
    write("src/train.py")
    write("src/package/layers.py")
    # when
    code = main(["submit", "--name", "mine", "--workers", "2", "--gpus", "1", "--code", "src", "--env", "A=1",
                 "--", "python", "src/train.py", "--epochs", "3"])  # fmt: skip
    # then
    output = capsys.readouterr()
    assert (code, output.out) == (0, "tfdistjob/mine created\n"), output.err
    assert output.err.splitlines()[-1] == "follow it: tfdist attach mine"
    job = api.job(namespace, "mine")
    (stored,) = code_of(api, namespace)
    assert job["spec"]["training"]["script"] == "train.py"
    assert job["spec"]["training"]["args"] == ["--epochs", "3"]
    content = base64.b64decode(stored["binaryData"]["code.tar.gz"])
    source = {"name": stored["metadata"]["name"], "parts": 1, "sha256": hashlib.sha256(content).hexdigest()}
    assert job["spec"]["training"]["source"] == {"archive": source}
    assert job["spec"]["worker"]["replicas"] == 2
    assert job["spec"]["resources"] == {"limits": {"nvidia.com/gpu": 1}}
    assert files(stored) == {"train.py", "package/layers.py"}
    assert stored["immutable"] is True
    (owner,) = stored["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("TFDistJob", "mine", job["metadata"]["uid"])


@pytest.mark.usefixtures("kubeconfig")
def test_a_folder_of_5_mb_becomes_a_job_that_owns_all_parts_of_its_code(
    api: Api, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    # given
    write("src/train.py")
    pathlib.Path("src/weights.bin").write_bytes(random.Random(0).randbytes(5_000_000))  # noqa: S311  incompressible
    # when
    code = main(["submit", "--name", "mine", "--code", "src", "--", "python", "train.py"])
    # then
    assert code == 0, capsys.readouterr().err
    job = api.job(namespace, "mine")
    source = job["spec"]["training"]["source"]["archive"]
    stored = {each["metadata"]["name"]: each for each in code_of(api, namespace)}
    names = [source["name"], *(f"{source['name']}-{number}" for number in range(1, 6))]
    assert (source["parts"], sorted(stored)) == (6, sorted(names))
    content = b"".join(base64.b64decode(stored[name]["binaryData"]["code.tar.gz"]) for name in names)
    assert hashlib.sha256(content).hexdigest() == source["sha256"]
    for each in stored.values():
        assert each["immutable"] is True
        assert [owner["uid"] for owner in each["metadata"]["ownerReferences"]] == [job["metadata"]["uid"]]
        assert not each["metadata"].get("labels")


@pytest.mark.usefixtures("kubeconfig")
def test_parts_that_a_killed_submission_has_left_are_removed(
    api: Api, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given parts of code without a job, of more than an hour ago
    for name in ("killed-code-1", "killed-code-1-1"):
        metadata = {"name": name, "labels": {CODE_OF: "killed"}}
        api.do("POST", CONFIG_MAPS.format(ns=namespace), {"metadata": metadata, "immutable": True})
    monkeypatch.setattr(creation, "_UNOWNED_AGE", timedelta(0))
    # when
    assert main(["submit", "--name", "mine", "--image", "own:1", "--", "bash"]) == 0
    # then
    assert code_of(api, namespace) == []


@pytest.mark.usefixtures("kubeconfig")
def test_a_script_of_the_current_folder_is_packed_alone_and_gives_the_job_its_name(
    api: Api, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write("my_train.py")
    write("weights.bin")

    assert main(["submit", "--", "python", "my_train.py"]) == 0

    (stored,) = code_of(api, namespace)
    assert files(stored) == {"my_train.py"}
    name = capsys.readouterr().out.split()[0].removeprefix("tfdistjob/")
    prefix, _, suffix = name.rpartition("-")
    assert (prefix, len(suffix)) == ("my-train", 5)
    assert stored["metadata"]["name"].startswith(f"{name}-code-")


@pytest.mark.usefixtures("kubeconfig")
def test_any_other_command_is_that_of_the_container(api: Api, namespace: str) -> None:
    assert main(["submit", "--name", "mine", "--image", "own:1", "--", "bash", "-c", "run"]) == 0

    spec = api.job(namespace, "mine")["spec"]
    assert (spec["image"], spec["command"], "training" in spec) == ("own:1", ["bash", "-c", "run"], False)
    assert code_of(api, namespace) == []


@pytest.mark.usefixtures("kubeconfig")
def test_fields_of_a_manifest_are_set(api: Api, namespace: str) -> None:
    file = job_file(env=[{"name": "A", "value": "1"}])

    assert main(["submit", file, "--name", "second", "--set", "training.config.learningRate=0.01",
                 "--set", "env[0].value=two", "--set", "worker.replicas=3"]) == 0  # fmt: skip

    spec = api.job(namespace, "second")["spec"]
    assert spec["training"]["config"]["learningRate"] == 0.01
    assert spec["env"] == [{"name": "A", "value": "two"}]
    assert spec["worker"]["replicas"] == 3


@pytest.mark.usefixtures("kubeconfig")
def test_config_maps_of_the_file_are_created_or_must_be_equal(
    api: Api, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    # given
    job_file(training={"script": "train.py", "source": {"configMap": {"name": "my-code"}}})
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "my-code"}, "data": {"train.py": "1"}}
    with pathlib.Path("job.yaml").open("a") as file:
        file.write("---\n" + yaml.safe_dump(config_map))
    # then the first creates it, a second uses it, and a third with another content is rejected
    assert main(["submit", "job.yaml", "--name", "one"]) == 0
    assert main(["submit", "job.yaml", "--name", "two"]) == 0
    pathlib.Path("job.yaml").write_text(pathlib.Path("job.yaml").read_text().replace("'1'", "'2'"))
    capsys.readouterr()
    assert main(["submit", "job.yaml", "--name", "three"]) == 2
    assert 'configmaps "my-code" already exists with another content' in capsys.readouterr().err
    assert api.send("GET", f"/apis/tfdist.dev/v1/namespaces/{namespace}/tfdistjobs/three").status_code == 404
    stored = api.do("GET", f"{CONFIG_MAPS.format(ns=namespace)}/my-code")
    assert "ownerReferences" not in stored["metadata"]


@pytest.mark.usefixtures("kubeconfig")
def test_a_job_that_exists_is_named_and_no_code_remains(
    api: Api, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    # given
    write("train.py")
    main(["submit", "--name", "mine", "--", "bash"])
    capsys.readouterr()
    # when
    code = main(["submit", "--name", "mine", "--", "python", "train.py"])
    # then
    assert code == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert '"mine" already exists' in error
    assert code_of(api, namespace) == []


@pytest.mark.usefixtures("kubeconfig")
def test_the_code_of_a_job_that_runs_is_not_deleted_by_a_second_submission_of_the_same_code(
    api: Api, namespace: str
) -> None:
    write("train.py")
    assert main(["submit", "--name", "mine", "--", "python", "train.py"]) == 0
    assert main(["submit", "--name", "mine", "--", "python", "train.py"]) == 2

    assert len(code_of(api, namespace)) == 1


@pytest.mark.parametrize("step", ["_config_map", "_job", "_own"])
@pytest.mark.usefixtures("kubeconfig")
def test_ctrl_c_after_any_step_leaves_nothing(
    step: str, api: Api, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given a user who presses Ctrl-C while a request is under way
    write("train.py")
    original: Callable[..., Any] = getattr(creation._Creation, step)

    def interrupted(*given: Any) -> Any:
        answer = original(*given)
        os.kill(os.getpid(), signal.SIGINT)
        return answer

    monkeypatch.setattr(creation._Creation, step, interrupted)
    # then
    assert main(["submit", "--name", "mine", "--", "python", "train.py"]) == 130
    assert code_of(api, namespace) == []
    assert api.do("GET", f"/apis/tfdist.dev/v1/namespaces/{namespace}/tfdistjobs")["items"] == []
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("kubeconfig")
def test_a_job_whose_answer_is_lost_keeps_its_code(
    api: Api, namespace: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # given an API server that stores the job and does not answer
    write("train.py")
    original = ApiServer.request

    def without_answer(self: ApiServer, method: str, path: str, *given: Any, **query: Any) -> Json:
        answer = original(self, method, path, *given, **query)
        if method == "POST" and path.endswith("tfdistjobs"):
            raise NoCluster("timed out")
        return answer

    monkeypatch.setattr(ApiServer, "request", without_answer)
    # then
    assert main(["submit", "--name", "mine", "--", "python", "train.py"]) == 0, capsys.readouterr().err
    (stored,) = code_of(api, namespace)
    assert stored["metadata"]["ownerReferences"][0]["uid"] == api.job(namespace, "mine")["metadata"]["uid"]


@pytest.mark.usefixtures("kubeconfig")
def test_code_that_is_deleted_with_an_earlier_job_of_the_same_name_is_created_again(
    api: Api, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given code of an earlier job, which the garbage collector deletes after this one has found it
    write("train.py")
    original = creation._Creation._job

    def collected(*given: Any) -> Json:
        (stored,) = code_of(api, namespace)
        api.do("DELETE", f"{CONFIG_MAPS.format(ns=namespace)}/{stored['metadata']['name']}")
        return original(*given)

    monkeypatch.setattr(creation._Creation, "_job", collected)
    # then
    assert main(["submit", "--name", "mine", "--", "python", "train.py"]) == 0
    (stored,) = code_of(api, namespace)
    assert stored["metadata"]["ownerReferences"][0]["uid"] == api.job(namespace, "mine")["metadata"]["uid"]


@pytest.mark.usefixtures("kubeconfig")
def test_a_dry_run_of_the_server_checks_and_stores_nothing(
    api: Api, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write("train.py")

    assert main(["submit", "--dry-run=server", "--name", "mine", "--", "python", "train.py"]) == 0
    assert capsys.readouterr().out == "tfdistjob/mine created (server dry run)\n"
    assert code_of(api, namespace) == []
    assert api.do("GET", f"/apis/tfdist.dev/v1/namespaces/{namespace}/tfdistjobs")["items"] == []


@pytest.mark.usefixtures("kubeconfig")
def test_a_missing_right_is_named_and_nothing_is_created(capsys: pytest.CaptureFixture[str]) -> None:
    write("train.py")

    assert main(["submit", "-n", "default", "--", "python", "train.py"]) == 2
    assert 'cannot create resource "configmaps"' in capsys.readouterr().err


@pytest.mark.usefixtures("kubeconfig")
def test_a_run_submits_and_ends_with_the_exit_code_of_the_job(
    namespace: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # given
    followed: list[tuple[str, str]] = []

    def follow(client: Client, reference: Reference) -> int:
        followed.append((client.namespace, reference.name))
        return 42

    monkeypatch.setattr(attach, "follow", follow)
    write("train.py")
    # then
    assert main(["run", "--name", "mine", "--", "python", "train.py"]) == 42, capsys.readouterr().err
    assert followed == [(namespace, "mine")]


def test_python_submits_a_folder_with_changed_fields(kubeconfig: pathlib.Path, api: Api, namespace: str) -> None:
    # given
    client = Client(kubeconfig=kubeconfig)
    write("src/train.py")
    job = {"metadata": {"generateName": "mine-"}, "spec": {"training": {"script": "train.py"}, "worker": {}}}
    # when
    handle = client.submit(job, code="src", set={"worker.replicas": 3})
    # then
    assert handle.job.spec["worker"]["replicas"] == 3
    (stored,) = code_of(api, namespace)
    assert stored["metadata"]["ownerReferences"][0]["name"] == handle.name
    with pytest.raises(Invalid, match=r"spec\.worker\.replica: unknown field"):
        client.submit(job, set={"worker.replica": 3})
    with pytest.raises(AlreadyExists):
        client.submit(job | {"metadata": {"name": handle.name}}, code="src")
