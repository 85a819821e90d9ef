"""`tfdist render`: the objects that the controller would create, as manifests."""

import json
import pathlib
from collections.abc import Sequence
from typing import Any

import pytest
import yaml
from support.factories import UID, manifest

from tfdist.api.v1 import TFDistJob
from tfdist.cli.commands import validate as command
from tfdist.cli.main import main


def objects(job: TFDistJob, default_image: str, attempt: int = 0) -> list[dict[str, Any]]:
    """A Service and a pod, in an unconventional order of fields."""
    meta = {"namespace": job.metadata.namespace, "name": job.metadata.name, "uid": job.metadata.uid}
    pod = {"spec": {"image": default_image, "attempt": attempt}, "metadata": meta, "kind": "Pod", "apiVersion": "v1"}
    return [{"metadata": meta, "kind": "Service", "apiVersion": "v1"}, pod]


@pytest.fixture(autouse=True)
def rendering(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    """The command prints whatever it is given: what the objects are is tested with the renderer."""
    monkeypatch.setattr(command, "objects", objects)
    monkeypatch.chdir(tmp_path)


def write(*contents: dict[str, Any]) -> str:
    pathlib.Path("a.yaml").write_text(yaml.safe_dump_all(contents), encoding="utf-8")
    return "a.yaml"


def job(**metadata: Any) -> dict[str, Any]:
    return manifest() | {"metadata": {"name": "fashion"} | metadata}


def rendered(capsys: pytest.CaptureFixture[str], arguments: Sequence[str]) -> str:
    assert main(["render", *arguments]) == 0
    return capsys.readouterr().out


def test_objects_come_in_order_as_a_stream_of_yaml(capsys: pytest.CaptureFixture[str]) -> None:
    out = rendered(capsys, [write(manifest())])
    assert [made["kind"] for made in yaml.safe_load_all(out)] == ["Service", "Pod"]
    assert out.count("\n---\n") == 1


def test_fields_come_in_the_usual_order(capsys: pytest.CaptureFixture[str]) -> None:
    out = rendered(capsys, [write(manifest())])
    _, pod = yaml.safe_load_all(out)
    assert list(pod) == ["apiVersion", "kind", "metadata", "spec"]
    assert list(pod["metadata"]) == ["name", "namespace", "uid"]


def test_programs_get_a_list(capsys: pytest.CaptureFixture[str]) -> None:
    made = json.loads(rendered(capsys, ["-o", "json", write(manifest(), manifest())]))
    assert (made["apiVersion"], made["kind"]) == ("v1", "List")
    assert [item["kind"] for item in made["items"]] == ["Service", "Pod", "Service", "Pod"]


def test_a_job_without_uid_gets_one_that_shows(capsys: pytest.CaptureFixture[str]) -> None:
    out = rendered(capsys, [write(job())])
    assert out.startswith("# TFDistJob fashion has no uid yet: 00000000-0000-0000-0000-000000000000 stands for")
    assert next(yaml.safe_load_all(out))["metadata"]["uid"] == "00000000-0000-0000-0000-000000000000"


def test_a_stored_job_keeps_its_uid_and_namespace(capsys: pytest.CaptureFixture[str]) -> None:
    out = rendered(capsys, ["--namespace", "other", write(manifest())])
    assert not out.startswith("#")
    assert next(yaml.safe_load_all(out))["metadata"] == {"name": "fashion", "namespace": "team", "uid": UID}


def test_namespace_and_image_are_for_jobs_without(capsys: pytest.CaptureFixture[str]) -> None:
    out = rendered(capsys, ["--namespace", "mine", "--image", "registry.example.com/trainer:7", write(job())])
    _, pod = yaml.safe_load_all(out)
    assert pod["metadata"]["namespace"] == "mine"
    assert pod["spec"]["image"] == "registry.example.com/trainer:7"


def test_documents_of_other_kinds_are_skipped(capsys: pytest.CaptureFixture[str]) -> None:
    out = rendered(capsys, [write({"apiVersion": "v1", "kind": "Secret"}, manifest())])
    assert "Secret" not in out


def test_one_invalid_job_renders_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["render", write(manifest(), manifest(worker={"replicas": -1}))]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "spec.worker.replicas: " in err
    assert err.startswith("a.yaml:")


def test_a_file_without_a_job_is_rejected_with_the_kinds_it_contains(capsys: pytest.CaptureFixture[str]) -> None:
    tfjob = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob"}
    assert main(["render", write({"apiVersion": "v1", "kind": "Service"}, tfjob)]) == 1
    assert capsys.readouterr().err == (
        "a.yaml: no TFDistJob to render; found Service, TFJob; `tfdist convert` converts a TFJob to a TFDistJob\n"
    )


def test_a_missing_file_is_an_error_of_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["render", "none.yaml"]) == 2
    assert capsys.readouterr() == ("", "none.yaml: no such file or folder\n")
