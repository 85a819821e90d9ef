"""`tfdist submit` up to its first request: the job of a command line, changed fields, and errors of both."""

import base64
import io
import pathlib
import random
import sys
import tarfile
from typing import Any

import pytest
import yaml
from support.factories import manifest
from support.stored_cluster import StoredCluster, connected

from tfdist.cli.command_job import NewJobOptions, command_job, set_values
from tfdist.cli.errors import CommandError
from tfdist.cli.main import main
from tfdist.client.errors import Invalid
from tfdist.client.overrides import with_values

Json = dict[str, Any]


@pytest.fixture(autouse=True)
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """The current folder, without a cluster."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "absent"))
    return tmp_path


def write(path: str, text: str = "print()") -> None:
    pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
    pathlib.Path(path).write_text(text)


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[Json]:
    """Return the objects that a dry run of the client prints."""
    code = main(["submit", "--dry-run=client", *arguments])
    output = capsys.readouterr()
    assert code == 0, output.err
    return list(yaml.safe_load_all(output.out))


def error(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 2) -> str:
    """Return the only line of an error."""
    assert main(list(arguments)) == code
    output = capsys.readouterr()
    assert output.out == ""
    (line,) = output.err.splitlines()
    return line


@pytest.mark.parametrize(
    ("command", "training"),
    [
        (["python", "train.py"], {"script": "train.py"}),
        (["python3", "./jobs/train.py", "--lr", "3"], {"script": "jobs/train.py", "args": ["--lr", "3"]}),
        (["python3.11", "/app/train.py"], {"script": "/app/train.py"}),
        (["train.py", "a"], {"script": "train.py", "args": ["a"]}),
        (["python", "-m", "team.train", "a"], {"script": "team.train", "args": ["a"]}),
        (["python", "-u", "train.py"], None),
        (["python"], None),
        (["bash", "train.py"], None),
    ],
)
def test_python_and_a_script_are_a_script_and_any_other_command_is_a_command(
    command: list[str], training: Json | None
) -> None:
    spec = command_job(command, NewJobOptions())["spec"]

    assert spec.get("training") == training
    assert spec.get("command") == (None if training else command)


def test_values_are_read_as_in_a_manifest() -> None:
    given = ["a=3", "b=0.01", "c=true", 'd="3"', "e=x=y", "f=[1, two]", "g=", "h=10:30", "i=1e3"]

    assert set_values(given) == {
        "a": 3, "b": 0.01, "c": True, "d": "3", "e": "x=y", "f": [1, "two"], "g": None, "h": "10:30", "i": 1000,
    }  # fmt: skip


@pytest.mark.parametrize("given", ["a", "=3", "a=[1", "a=@x", "a=.nan"])
def test_a_malformed_value_is_named_with_its_option(given: str) -> None:
    with pytest.raises(CommandError, match=r"^--set "):
        set_values([given])


@pytest.mark.parametrize(
    ("path", "changed"),
    [
        ("spec.image", {"metadata": {}, "spec": {"image": 1, "env": [{"name": "A"}]}}),
        ("training.config.data.train", {"metadata": {}, "spec": {"training": {"config": {"data": {"train": 1}}},
                                                                 "image": "a", "env": [{"name": "A"}]}}),
        ("env[0].value", {"metadata": {}, "spec": {"image": "a", "env": [{"name": "A", "value": 1}]}}),
        ("env[1].name", {"metadata": {}, "spec": {"image": "a", "env": [{"name": "A"}, {"name": 1}]}}),
        ("volumes[0]", {"metadata": {}, "spec": {"image": "a", "env": [{"name": "A"}], "volumes": [1]}}),
        ("metadata.labels['a.b/c']", {"metadata": {"labels": {"a.b/c": 1}},
                                      "spec": {"image": "a", "env": [{"name": "A"}]}}),
    ],
)  # fmt: skip
def test_a_path_reaches_objects_lists_and_what_does_not_exist_yet(path: str, changed: Json) -> None:
    job = {"metadata": {}, "spec": {"image": "a", "env": [{"name": "A"}]}}

    assert with_values(job, {path: 1}) == changed
    assert job == {"metadata": {}, "spec": {"image": "a", "env": [{"name": "A"}]}}


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("image.tag", 'spec.image is "a", and has no fields'),
        ("image[0]", 'spec.image is "a", and no list'),
        ("env.name", "spec.env is list, and has no fields"),
        ("env[3].name", "spec.env has 1 item; the next index is 1"),
        ("env[x]", "malformed path"),
        ("", "malformed path"),
        ("a..b", "malformed path"),
    ],
)
def test_a_path_that_leads_nowhere_is_named(path: str, message: str) -> None:
    with pytest.raises(Invalid) as rejected:
        with_values({"spec": {"image": "a", "env": [{}]}}, {path: 1})
    assert message in str(rejected.value)


def test_a_dry_run_prints_the_job_and_its_code_without_a_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    write("src/train.py")

    code, job = printed(capsys, "--name", "mine", "--code", "src", "--", "python", "train.py")

    assert code["metadata"] == {"name": job["spec"]["training"]["source"]["archive"]["name"]}
    assert code["metadata"]["name"].startswith("mine-code-")
    assert job["metadata"] == {"name": "mine"}


def test_a_dry_run_prints_all_parts_of_large_code(capsys: pytest.CaptureFixture[str]) -> None:
    write("src/train.py")
    pathlib.Path("src/weights.bin").write_bytes(random.Random(0).randbytes(1_000_000))  # noqa: S311  not compressible

    first, second, job = printed(capsys, "--name", "mine", "--code", "src", "--", "python", "train.py")

    source = job["spec"]["training"]["source"]["archive"]
    names = [each["metadata"]["name"] for each in (first, second)]
    assert (source["parts"], names) == (2, [source["name"], f"{source['name']}-1"])


@pytest.mark.parametrize("way", ["option", "variable"])
def test_code_for_an_object_store_is_named_by_its_hash(
    way: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # given
    write("src/train.py")
    option = ["--code-store", "s3://bucket/code/"] if way == "option" else []
    monkeypatch.setenv("TFDIST_CODE_STORE", "s3://other" if way == "option" else "s3://bucket/code")
    # when a dry run prints the job, nothing is uploaded
    (job,) = printed(capsys, "--name", "mine", "--code", "src", *option, "--", "python", "train.py")
    # then
    assert list(job["spec"]["training"]["source"]) == ["object"]
    source = job["spec"]["training"]["source"]["object"]
    assert source["url"] == f"s3://bucket/code/{source['sha256']}.tar.gz"


def test_code_is_not_uploaded_without_the_library_that_does_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # given an installation without the extra
    write("src/train.py")
    for name in [name for name in sys.modules if name.startswith("obstore.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "obstore", None)
    cluster = StoredCluster()
    # when
    with connected(cluster):
        code = main(["submit", "--code", "src", "--code-store", "gs://bucket", "--", "python", "train.py"])
    # then
    output = capsys.readouterr().err.splitlines()[-1]
    assert code == 2
    assert ".tar.gz: the code is uploaded by obstore, which is not installed: pip install 'tfdist-cli[obje" in output
    assert cluster.objects == {}


@pytest.mark.parametrize("url", ["https://host/code", "s3://", "s3://key@bucket", "/shared/code", "s3://bucket//a"])
def test_a_store_of_code_is_a_bucket(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    write("src/train.py")
    output = error(capsys, "submit", "--code", "src", "--code-store", url, "--", "python", "train.py")
    assert "write s3://bucket/prefix or gs://bucket/prefix, without credentials" in output


def test_the_code_of_a_manifest_replaces_its_source(capsys: pytest.CaptureFixture[str]) -> None:
    git = {"repository": "https://h/a.git", "directory": "src"}
    write("job.yaml", yaml.safe_dump(manifest(training={"script": "train.py", "source": {"git": git}})))
    write("src/train.py")

    _, job = printed(capsys, "job.yaml", "--code", "src")

    assert list(job["spec"]["training"]["source"]) == ["archive"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give a manifest FILE, or -- and a command"),
        (["job.yaml", "--workers", "3"], "--workers: job.yaml is a manifest; change a field by --set"),
        (["job.yaml", "--", "--epochs", "3"], "--epochs: job.yaml is a manifest; set training.args in it"),
        (["absent.yaml"], "absent.yaml: no such file or folder"),
        (["python", "train.py"], "python: neither a manifest nor a script; write -- before a command"),
        (["--", "python", "absent.py"], "absent.py: no such file; the path of a script in the image is absolute"),
        (["--", "python", "../outside.py"], "../outside.py: outside of the current folder; give its folder by --code"),
        (["--code", "absent", "--", "python", "train.py"], "absent: no such folder"),
        (["--code", "src", "--", "python", "absent.py"], "absent.py: the code of src has no such file"),
        (["--code", "src", "--", "bash"], "--code: only a script or program uses a folder of code"),
        (["--env", "A", "--", "bash"], "--env A: write NAME=VALUE"),
        (["job.yaml", "--set", "image.tag=3"], "--set image.tag: spec.image is"),
        (["job.yaml", "--set", "image"], "--set image: write PATH=VALUE"),
        (["-n", "other", "job.yaml"], "--namespace other: the manifest has the namespace team"),
        (["two.yaml"], "two.yaml: contains 2 jobs (fashion, fashion)"),
        (["job.yaml"], "there is no kubeconfig at"),
    ],
)
def test_wrong_usage_is_one_line(
    arguments: list[str], message: str, folder: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # given
    write("job.yaml", yaml.safe_dump(manifest(image="own:1", command=["x"], without=["training"])))
    write("two.yaml", yaml.safe_dump_all([manifest(), manifest()]))
    write("src/train.py")
    write("train.py")
    (folder.parent / "outside.py").write_text("")
    # then
    assert message in error(capsys, "submit", *arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["job.yaml"], "job.yaml:4: spec.workers: unknown field; did you mean worker?"),
        (["good.yaml", "--set", "worker.replica=3"], "--set worker.replica: spec.worker.replica: unknown field"),
        (["good.yaml", "--set", "training.config.epoch=3"], "--set training.config.epoch: spec.training.config.epoch:"),
        (["--name", "My_Job", "--", "bash"], "metadata.name: "),
    ],
)
def test_an_invalid_job_is_reported_as_by_validate_with_the_option_that_made_it_invalid(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write("job.yaml", "apiVersion: tfdist.dev/v1\nkind: TFDistJob\nmetadata: {name: a}\n"
                      "spec: {workers: {}, training: {script: a.b}}\n")  # fmt: skip
    write("good.yaml", yaml.safe_dump(manifest()))

    assert error(capsys, "submit", *arguments, code=1).startswith(message)


def test_other_documents_of_a_file_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}}
    write("job.yaml", yaml.safe_dump_all([claim, manifest()], sort_keys=False))

    assert main(["submit", "--dry-run=client", "job.yaml"]) == 0
    assert "job.yaml:2: PersistentVolumeClaim data is not created" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--local", "--gpus", "1", "a.yaml"], "--gpus cannot be used with --local"),
        (["--state", "x", "a.yaml"], "--state requires --local"),
        (["--local"], "give a manifest or a script"),
        (["--local", "--", "python", "absent.py"], "absent.py: no such file"),
    ],
)
def test_options_of_the_other_way_to_run_are_rejected(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", *arguments]) == 2
    assert message in " ".join(capsys.readouterr().err.replace("│", " ").split())


def test_files_that_may_contain_credentials_are_sent_only_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    write("src/train.py")
    write("src/.env", "TOKEN=1")
    arguments = ["submit", "--dry-run=client", "--name", "a", "--code", "src"]

    assert main([*arguments, "--", "python", "train.py"]) == 0
    assert "may contain credentials: .env; the option --include PATTERN" in capsys.readouterr().err
    assert main([*arguments, "--include", ".env", "--", "python", "train.py"]) == 0
    output = capsys.readouterr().err
    assert ("credentials" in output, "code: 2 files" in output) == (False, True)
    assert main(["submit", "--include", ".env", "--", "bash"]) == 2
    assert "--include: it names files of --code" in capsys.readouterr().err


# Packages


def test_the_packages_of_a_script_are_locked_and_sent_with_it(capsys: pytest.CaptureFixture[str]) -> None:
    # given
    write("train.py")
    write("requirements.txt", "salute==1.2 --hash=sha256:00\n")
    # when
    code, job = printed(capsys, "--name", "a", "--requirements", "requirements.txt", "--", "python", "train.py")
    # then
    assert job["spec"]["training"]["requirements"] == "tfdist-requirements.txt"
    with tarfile.open(fileobj=io.BytesIO(base64.b64decode(code["binaryData"]["code.tar.gz"]))) as packed:
        assert packed.getnames() == ["tfdist-requirements.txt", "train.py"]


def test_the_packages_of_a_folder_are_locked_and_sent_with_it(capsys: pytest.CaptureFixture[str]) -> None:
    # given
    write("src/train.py")
    write("requirements.txt", "salute==1.2 --hash=sha256:00\n")
    # when
    options = ["--name", "a", "--code", "src", "--requirements", "requirements.txt"]
    _, job = printed(capsys, *options, "--", "python", "train.py")
    # then
    assert job["spec"]["training"]["requirements"] == "tfdist-requirements.txt"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["submit", "--", "python", "-m", "team.train"], "the packages are named in the job's code; add its folder"),
        (["submit", "--", "bash"], "spec.training: neither a script nor a program uses the packages"),
        (["submit", "--image", "a:1", "--", "python", "train.py"], "the Python and packages of an image of your own"),
    ],
)
def test_packages_that_cannot_be_sent_are_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    write("train.py")
    write("requirements.txt", "salute" if "--image" in arguments else "salute==1.2 --hash=sha256:00")
    command, *others = arguments

    assert message in error(capsys, command, "--requirements", "requirements.txt", *others)
