"""`tfdist convert`: TFJobs become TFDistJobs, other documents stay unchanged, changes of meaning have notes."""

import io
import json
import pathlib
from collections.abc import Mapping
from typing import Any

import pytest
import yaml
from support.factories import manifest
from support.tfjobs import tfjob

from tfdist import convert as conversions
from tfdist.cli import documents, manifests
from tfdist.cli.main import main
from tfdist.convert import CannotConvert, Conversion, Note
from tfdist.validation import FieldError

CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"run.sh": "one\n  two\n"}}
TFJOB = """\
apiVersion: kubeflow.org/v1
kind: TFJob
metadata:
  name: {name}
spec:
  runPolicy:
    cleanPodPolicy: Running
"""
RESULTS: dict[str, Conversion | CannotConvert] = {
    "good": Conversion(manifest("good"), []),
    "noted": Conversion(manifest("noted"), [Note("spec.runPolicy.cleanPodPolicy", "means something else")]),
    "hopeless": CannotConvert([FieldError("spec.runPolicy", "cannot be expressed")]),
    "unlucky": Conversion(manifest("unlucky", worker={"replicas": -1}), []),
}


def converted(given: Mapping[str, Any]) -> Conversion:
    """Stand for the conversion, which has tests of its own: the name of the job decides."""
    result = RESULTS[given["metadata"]["name"]]
    if isinstance(result, CannotConvert):
        raise result
    return result


@pytest.fixture(autouse=True)
def conversion(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    monkeypatch.setattr(conversions, "convert", converted)
    monkeypatch.chdir(tmp_path)


def write(*contents: Any) -> str:
    texts = [TFJOB.format(name=each) if isinstance(each, str) else yaml.safe_dump(each) for each in contents]
    pathlib.Path("a.yaml").write_text("---\n".join(texts), encoding="utf-8")
    return "a.yaml"


def names(text: str) -> list[str]:
    return [document.value["metadata"]["name"] for document in documents.parse(text.encode(), "out")]


def test_tfjobs_are_converted_and_all_else_passes_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", write(CONFIG_MAP, "good", manifest("ours"))]) == 0
    out, err = capsys.readouterr()
    found = [document.value for document in documents.parse(out.encode(), "out")]
    assert found == [CONFIG_MAP, manifest("good"), manifest("ours")]
    assert err == ""


def test_text_of_several_lines_stays_readable(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", write(CONFIG_MAP)]) == 0
    assert "  run.sh: |\n    one\n      two\n" in capsys.readouterr().out


def test_notes_stand_above_the_job_and_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", write(CONFIG_MAP, "noted")]) == 0
    out, err = capsys.readouterr()
    line = yaml.safe_dump(CONFIG_MAP).count("\n") + 1 + 7
    assert err == f"a.yaml:{line}: spec.runPolicy.cleanPodPolicy: means something else\n"
    assert out.split("---\n")[1].startswith(
        "# Converted from TFJob noted. What changes:\n"
        "# - spec.runPolicy.cleanPodPolicy: means something else\n"
        "apiVersion: tfdist.dev/v1\n"
    )


def test_a_failed_conversion_is_reported_in_the_position_of_its_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", write("hopeless", "good")]) == 1
    out, err = capsys.readouterr()
    assert err == "a.yaml:6: spec.runPolicy: cannot be expressed\n"
    assert out.startswith("# TFJob hopeless could not be converted:\n# - spec.runPolicy: cannot be expressed\n---\n")
    assert names(out) == ["good"]


def test_an_invalid_result_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", write("unlucky")]) == 1
    out, err = capsys.readouterr()
    assert err.startswith("a.yaml:1: the converted TFDistJob is invalid, correct it there: spec.worker.replicas: ")
    assert "# - the converted TFDistJob is invalid" in out
    assert names(out) == ["unlucky"]


def test_programs_get_a_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", "-o", "json", write("noted", "hopeless", CONFIG_MAP)]) == 1
    made = json.loads(capsys.readouterr().out)
    assert (made["kind"], [item["kind"] for item in made["items"]]) == ("List", ["TFDistJob", "ConfigMap"])


def test_a_file_that_cannot_be_read_hides_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", "none.yaml", write("good")]) == 2
    out, err = capsys.readouterr()
    assert names(out) == ["good"]
    assert err == "none.yaml: no such file or folder\n"


SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "board"},
    "spec": {"selector": {"training.kubeflow.org/job-name": "good"}},
}


def test_a_note_on_another_document_stands_above_it_and_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", write("good", SERVICE)]) == 0
    out, err = capsys.readouterr()
    path = "spec.selector['training.kubeflow.org/job-name']"
    text = "no pod of a TFDistJob has the label training.kubeflow.org/job-name; select tfdist.dev/job instead"
    place = TFJOB.count("\n") + 1 + yaml.safe_dump(SERVICE).count("\n")
    assert err == f"a.yaml:{place}: {path}: {text}\n"
    assert "# Service board is unchanged. What to correct:\n# - spec.selector[" in out
    assert [each.value for each in documents.parse(out.encode(), "out")][1] == SERVICE


def test_the_names_of_tfjobs_are_known_to_documents_of_other_files(capsys: pytest.CaptureFixture[str]) -> None:
    pathlib.Path("b.yaml").write_text(yaml.safe_dump(SERVICE | {"spec": {"externalName": "good-worker-0.team"}}))
    assert main(["convert", "b.yaml", write(tfjob(name="good"))]) == 0
    assert "b.yaml:6: spec.externalName: the Service good-worker-0 no longer exists" in capsys.readouterr().err


def test_a_document_without_a_note_has_no_comment(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", write(CONFIG_MAP)]) == 0
    assert "#" not in capsys.readouterr().out


def test_a_comment_is_not_wrapped_within_a_path() -> None:
    path = f"spec.{'affinity.' * 10}matchLabels['training.kubeflow.org/job-name']"
    stream = io.StringIO()
    manifests.write_yaml(stream, [(None, [f"- {path}: contains a label, which no longer exists"])])
    assert path in stream.getvalue()
