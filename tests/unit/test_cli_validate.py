"""`tfdist validate`: a line for each problem, a summary, and an exit code."""

import json
import pathlib
from typing import Any

import pytest
import yaml
from support.factories import manifest
from support.sweeps import sweep_manifest

from tfdist.cli.main import main

SERVICE = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}
TFJOB = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": "t"}}
TWO_ERRORS = """\
apiVersion: tfdist.dev/v1
kind: TFDistJob
metadata: {name: fashion}
spec:
  training: {program: image_classification}
  wroker: {}
  worker:
    replicas: -1
"""


@pytest.fixture(autouse=True)
def inside(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(name: str, *contents: Any) -> str:
    texts = [content if isinstance(content, str) else yaml.safe_dump(content) for content in contents]
    pathlib.Path(name).write_text("---\n".join(texts), encoding="utf-8")
    return name


def test_valid_jobs_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", write("a.yaml", manifest(), manifest()), write("b.yaml", manifest())]) == 0
    assert capsys.readouterr() == ("", "3 documents are valid\n")


def test_each_problem_is_a_line_with_file_line_and_path(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", write("a.yaml", manifest(), TWO_ERRORS)]) == 1
    out, err = capsys.readouterr()
    start = yaml.safe_dump(manifest()).count("\n") + 1
    first, second = out.splitlines()
    assert first.startswith(f"a.yaml:{start + 6}: spec.wroker: unknown field")
    assert second.startswith(f"a.yaml:{start + 8}: spec.worker.replicas: ")
    assert err == "2 problems in 1 of 2 documents\n"


def test_a_warning_is_a_line_of_a_valid_job(capsys: pytest.CaptureFixture[str]) -> None:
    job = manifest(template={"spec": {"hostNetwork": True}})
    assert main(["validate", write("a.yaml", job)]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("a.yaml:")
    assert ": warning: spec.template.spec.hostNetwork: pods with hostNetwork are not subject" in out
    assert err == "1 document is valid; 1 warning\n"


def test_programs_get_the_severity(capsys: pytest.CaptureFixture[str]) -> None:
    files = write("a.yaml", manifest(template={"spec": {"hostNetwork": True}}), manifest(wroker={}))
    assert main(["validate", "-o", "json", files]) == 1
    assert [each["severity"] for each in json.loads(capsys.readouterr().out)] == ["warning", "error"]


def test_quiet_leaves_out_warnings(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "-q", write("a.yaml", manifest(template={"spec": {"hostNetwork": True}}))]) == 0
    assert capsys.readouterr() == ("", "")


def test_an_error_in_the_configuration_of_a_program_has_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    job = manifest()
    job["spec"]["training"]["config"] |= {"epochs": "many"}
    text = yaml.safe_dump(job)
    line = text[: text.index("epochs")].count("\n") + 1
    assert main(["validate", write("a.yaml", text)]) == 1
    message = 'spec.training.config.epochs: Invalid value: "many": must be an integer'
    assert capsys.readouterr().out == f"a.yaml:{line}: {message}\n"


def test_an_error_of_a_sweep_has_its_line_be_it_of_the_sweep_a_parameter_or_the_job(
    capsys: pytest.CaptureFixture[str],
) -> None:
    # given a file with a job, and a sweep with an error in each of its parts
    parameters = [{"name": "x", "field": "runtime.mixedPrecision", "values": ["float8"]}]
    sweep = sweep_manifest(parallelism=1, parameters=parameters, keepBest=2, template={"wroker": {}})
    sweep["spec"]["search"] = {"method": "Grid", "trials": 2}
    files = write("a.yaml", manifest(), sweep)
    assert main(["validate", files]) == 1
    # then each is reported with its line
    out, err = capsys.readouterr()
    lines = pathlib.Path(files).read_text(encoding="utf-8").splitlines()
    places = {}
    for each in out.splitlines():
        _, number, path, _ = each.split(":", 3)
        places[path.strip()] = lines[int(number) - 1].strip()
    assert places == {
        "spec.parameters[0]": "- field: runtime.mixedPrecision",
        "spec.search.trials": "trials: 2",
        "spec.template.spec.wroker": "wroker: {}",
    }
    assert err == "3 problems in 1 of 2 documents\n"


def test_a_valid_sweep_is_counted_with_its_warnings(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", write("a.yaml", sweep_manifest(metric="loss"))]) == 0
    out, err = capsys.readouterr()
    assert ": warning: spec.goal: a larger loss counts as better" in out
    assert err == "1 document is valid; 1 warning\n"


def test_documents_of_other_kinds_are_skipped(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", write("a.yaml", SERVICE, manifest(), SERVICE)]) == 0
    assert capsys.readouterr().err == "1 document is valid; 2 documents of other kinds skipped\n"


def test_a_file_without_a_job_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", write("a.yaml", "# nothing\n")]) == 0
    assert capsys.readouterr().err == "no TFDistJob or TFDistSweep found\n"


def test_a_tfjob_gets_a_hint_to_convert(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", write("a.yaml", TFJOB)]) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert "a.yaml:2: a TFJob; `tfdist convert a.yaml` converts it to a TFDistJob" in err


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"apiVersion": "tfdist.dev/v1beta1"}, "apiVersion: unknown version 'tfdist.dev/v1beta1'; write tfdist.dev/v1"),
        ({"apiVersion": "tfdist/v1"}, "apiVersion: unknown version 'tfdist/v1'; write tfdist.dev/v1"),
        ({"apiVersion": "v1", "kind": "tfdistjob"}, "apiVersion: unknown version 'v1'; write tfdist.dev/v1"),
        ({"kind": "TFDistjob"}, "kind: tfdist.dev/v1 has no kind 'TFDistjob'; write TFDistJob"),
        ({"kind": "TFJob"}, "kind: tfdist.dev/v1 has no kind 'TFJob'; write TFDistJob"),
        ({"apiVersion": "tfdist.dev/v1alpha1"}, "tfdist.dev/v1alpha1 has no kind TFDistJob; write tfdist.dev/v1"),
        ({"kind": "TFDistSweep"}, "tfdist.dev/v1 has no kind TFDistSweep; write tfdist.dev/v1alpha1"),
        ({"kind": "tfdistsweep", "apiVersion": "tfdist.dev/v1alpha1"}, "no kind 'tfdistsweep'; write TFDistSweep"),
        ({"kind": "Sweep", "apiVersion": "tfdist.dev/v1alpha1"}, "no kind 'Sweep'; write TFDistSweep"),
        ({"kind": None}, "kind: required value"),
        ({"apiVersion": ""}, "apiVersion: required value"),
        ({"apiVersion": 1}, "apiVersion: must be text; got 1"),
    ],
)
def test_a_job_that_no_cluster_serves_is_a_problem(
    changes: dict[str, Any], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["validate", write("a.yaml", manifest() | changes)]) == 1
    assert message in capsys.readouterr().out


def test_programs_get_json(capsys: pytest.CaptureFixture[str]) -> None:
    files = [write("a.yaml", TWO_ERRORS), write("b.yaml", "a: [")]
    assert main(["validate", "-o", "json", "--quiet", *files]) == 2
    typo, replicas, unreadable = json.loads(capsys.readouterr().out)
    assert typo["message"].startswith("unknown field")
    del typo["message"], replicas["message"], unreadable["message"]
    assert [typo.pop("severity"), replicas.pop("severity"), unreadable.pop("severity")] == ["error"] * 3
    assert typo == {"file": "a.yaml", "line": 6, "column": 3, "document": 1, "path": "spec.wroker"}
    assert replicas == {"file": "a.yaml", "line": 8, "column": 5, "document": 1, "path": "spec.worker.replicas"}
    assert unreadable == {"file": "b.yaml", "line": 2, "column": 1, "document": None, "path": ""}


def test_without_problems_programs_get_an_empty_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "-o", "json", write("a.yaml", manifest())]) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_quiet_prints_errors_only(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "--quiet", write("a.yaml", TFJOB, manifest())]) == 0
    assert capsys.readouterr() == ("", "")
    assert main(["validate", "--quiet", write("b.yaml", TWO_ERRORS)]) == 1
    out, err = capsys.readouterr()
    assert (len(out.splitlines()), err) == (2, "")


def test_an_unreadable_file_has_its_own_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "none.yaml", write("a.yaml", manifest())]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "none.yaml: no such file or folder\n1 document is valid; 1 file could not be read\n"


def test_documents_before_a_syntax_error_are_checked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", write("a.yaml", TWO_ERRORS, "a: [\n")]) == 2
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 2
    assert "2 problems in 1 of 1 document; 1 file could not be read" in err


def test_the_example_is_valid() -> None:
    examples = pathlib.Path(__file__).resolve().parents[2] / "examples"
    assert main(["validate", str(examples)]) == 0


def test_the_summary_of_unreadable_files_has_only_their_number(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "none.yaml"]) == 2
    assert capsys.readouterr().err == "none.yaml: no such file or folder\n1 file could not be read\n"


CONFIG = "spec.training.config"
UNQUOTED = """\
apiVersion: tfdist.dev/v1
kind: TFDistJob
metadata: {name: survey, labels: {answer: yes}}
spec:
  env:
  - {name: LEVEL, value: 010}
  training:
    program: tabular
    config:
      data: {train: "/data/*.csv"}
      label: y
      classes: [no, "yes", off]
      numeric: [x, n]
      categorical:
        smoker: [yes, 2]
        y: 20
"""


OF_METADATA = [
    ('metadata.labels.answer: yes is a boolean in YAML; write "yes"', 3),
    ('spec.env[0].value: 010 is a number in YAML; write "010"', 6),
    (f'warning: {CONFIG}.categorical.true: the key y is a boolean in YAML, kubectl reads it as "true"; write "y"', 16),
]
OF_CONFIG = [
    (f'{CONFIG}.label: y is a boolean in YAML; write "y"', 11),
    (f'{CONFIG}.classes[0]: no is a boolean in YAML; write "no"', 12),
    (f'{CONFIG}.classes[2]: off is a boolean in YAML; write "off"', 12),
    (f'{CONFIG}.numeric[1]: n is a boolean in YAML; write "n"', 13),
    (f'{CONFIG}.categorical.smoker[0]: yes is a boolean in YAML; write "yes"', 15),
    (f'{CONFIG}.categorical.smoker[1]: 2 is a number in YAML; write "2"', 15),
]
CONFIG_ONLY = UNQUOTED.replace(", labels: {answer: yes}", "").replace("value: 010", 'value: "010"')


def as_list(text: str) -> str:
    """Return a `List` with the manifest `text`, whose lines move down by 3."""
    first, *rest = text.splitlines()
    return "\n".join(["apiVersion: v1", "kind: List", "items:", f"- {first}", *(f"  {line}" for line in rest)])


@pytest.mark.parametrize(
    ("text", "expected"), [(UNQUOTED, OF_METADATA), (CONFIG_ONLY, [*OF_CONFIG, OF_METADATA[-1]])], ids=["job", "config"]
)
def test_an_unquoted_boolean_or_number_is_reported_as_written(
    text: str, expected: list[tuple[str, int]], capsys: pytest.CaptureFixture[str]
) -> None:
    for content, moved in ((text, 0), (as_list(text), 3)):
        assert main(["validate", write("a.yaml", content)]) == 1
        out, _ = capsys.readouterr()
        assert out.splitlines() == [f"a.yaml:{line + moved}: {message}" for message, line in expected]


def test_numbers_as_classes_are_reported_with_both_remedies(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", write("a.yaml", CONFIG_ONLY.replace('[no, "yes", off]', "[0, 1]"))]) == 1
    out, _ = capsys.readouterr()
    text = f'{CONFIG}.classes[0]: 0 is a number in YAML; write "0", or set classes: 2 for labels 0 to 1'
    assert f"a.yaml:12: {text}" in out.splitlines()
