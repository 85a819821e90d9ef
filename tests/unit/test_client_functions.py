"""Functions that become jobs: what is sent of them, and how the job runs it."""

import importlib.util
import json
import pathlib
import subprocess
import sys
import types
from typing import cast

import pytest
from support.job_functions import SDK, cell, run

from tfdist.client.client import Client
from tfdist.client.errors import CodeError, FunctionError
from tfdist.client.function import ARGUMENTS

PRINTING = """
import tfdist

@tfdist.job(workers=2)
def train(lr=1e-3, layers=()):
    print("lr", lr, "layers", list(layers))
    return lr
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """The current folder, from which modules are imported."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def module(path: str, source: str, name: str, monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """Return the module of a file below the current folder, imported by a name."""
    file = pathlib.Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(source)
    spec = importlib.util.spec_from_file_location(name, file.resolve())
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, made)
    spec.loader.exec_module(made)
    return made


# Calls


def test_a_call_runs_the_function_here() -> None:
    train = cell("@tfdist.job\ndef train(lr):\n    return 2 * lr\n")

    assert train(3) == 6
    assert train(lr=4) == 8


# What is sent


def test_a_function_of_a_notebook_is_sent_as_its_own_text() -> None:
    train = cell('@tfdist.job(workers=3)\ndef train(lr: "float", deep=True):\n    print(lr, deep)\n')

    manifest, archive = train.prepare(lr=0.5)

    assert archive.files == ("tfdist_call.py", "tfdist_function.py")
    assert run(archive) == "0.5 True\n"
    assert manifest["spec"] == {"worker": {"replicas": 3}, "training": {"script": "tfdist_call.py"}}
    assert manifest["metadata"]["generateName"] == "train-"
    assert json.loads(manifest["metadata"]["annotations"][ARGUMENTS]) == {"lr": 0.5}


def test_annotations_of_a_function_of_a_notebook_may_name_what_its_job_lacks() -> None:
    train = cell(
        "import pathlib\n@tfdist.job\ndef train(path: pathlib.Path = None) -> pathlib.Path:\n    print(path)\n"
    )

    _, archive = train.prepare()

    assert run(archive) == "None\n"


def test_a_function_of_a_module_is_sent_with_its_module(monkeypatch: pytest.MonkeyPatch) -> None:
    train = module("training.py", PRINTING, "training", monkeypatch).train

    _, archive = train.prepare(lr=0.25, layers=[1, 2])

    assert archive.files == ("tfdist_call.py", "training.py")
    assert run(archive) == "lr 0.25 layers [1, 2]\n"


def test_a_function_of_a_package_is_imported_by_its_full_name(monkeypatch: pytest.MonkeyPatch) -> None:
    module("team/__init__.py", "", "team", monkeypatch)
    source = f"{PRINTING}print(__name__)\n"
    train = module("team/jobs/train.py", source, "team.jobs.train", monkeypatch).train

    _, archive = train.prepare(1)

    assert archive.files == ("team/__init__.py", "team/jobs/train.py", "tfdist_call.py")
    assert run(archive) == "team.jobs.train\nlr 1 layers []\n"


def test_a_folder_of_code_brings_the_modules_that_the_function_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    pathlib.Path("src").mkdir()
    pathlib.Path("src/helper.py").write_text("NAME = 'helped'\n")
    monkeypatch.syspath_prepend(pathlib.Path("src").resolve())
    source = 'import tfdist\n@tfdist.job(code=".")\ndef train():\n    import helper\n    print(helper.NAME)\n'
    train = module("src/training.py", source, "training", monkeypatch).train

    _, archive = train.prepare()

    assert archive.files == ("src/helper.py", "src/training.py", "tfdist_call.py")
    assert run(archive) == "helped\n"


def test_a_module_that_the_code_would_lack_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    pathlib.Path("helper.py").touch()
    train = module("training.py", f"import helper\n{PRINTING}", "training", monkeypatch).train

    with pytest.raises(
        FunctionError, match=r"^training\.py imports helper\.py, which the job would not have: set code$"
    ):
        train.prepare()


def test_a_folder_without_the_module_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    pathlib.Path("other").mkdir()
    source = PRINTING.replace("workers=2", 'code="other"')
    train = module("training.py", source, "training", monkeypatch).train

    with pytest.raises(
        FunctionError, match=r"^code: other does not contain .*, from where training with train is imported"
    ):
        train.prepare()


def test_a_folder_that_does_not_exist_is_named() -> None:
    with pytest.raises(CodeError, match=r"^absent: no such folder"):
        cell('@tfdist.job(code="absent")\ndef train(): ...\n').prepare()


def test_a_script_runs_where_tfdist_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    train = module("training.py", PRINTING, "training", monkeypatch).train

    _, archive = train.prepare(lr=2)

    assert run(archive, installed=False) == "lr 2 layers []\n"


def test_a_module_that_submits_its_function_when_it_is_imported_does_not_submit_it_in_the_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    train = module("training.py", PRINTING, "training", monkeypatch).train
    pathlib.Path("training.py").write_text(f"{PRINTING}train.submit()\n")

    _, archive = train.prepare()

    last = run(archive, code=1).splitlines()[-1]
    assert last.endswith('the job itself does: submit it below if __name__ == "__main__":')


def test_the_import_of_a_module_with_a_function_does_not_need_the_packages_of_the_client() -> None:
    pathlib.Path("training.py").write_text(PRINTING)
    program = "import sys, training; print({'kubernetes', 'pathspec', 'yaml'} & set(sys.modules))"
    command = [sys.executable, "-c", program]

    output = subprocess.run(command, env={"PYTHONPATH": f"{SDK}:."}, capture_output=True, check=True, text=True).stdout

    assert output == "set()\n"


def test_an_image_without_the_client_says_where_it_is_and_runs_functions() -> None:
    program = (
        "import sys; sys.modules['tfdist.client'] = None\nimport tfdist; print(hasattr(tfdist, 'job')); tfdist.Client"
    )
    ran = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    assert ran.stdout == "False\n", "the script that calls a function stands in for it"
    assert ran.stderr.splitlines()[-1].endswith("tfdist.Client is in another distribution: pip install tfdist-cli")


@pytest.mark.parametrize(
    ("option", "name", "expected"),
    [
        ("rates", None, {"name": "rates"}),
        ("rates", "other", {"name": "other"}),
        (None, None, {"generateName": "train-"}),
    ],
)
def test_a_map_has_its_own_name_or_the_one_of_the_function(
    option: str | None, name: str | None, expected: dict[str, str]
) -> None:
    train = cell(f"@tfdist.job(name={option!r})\ndef train(lr): ...\n")
    submitted: list[dict[str, object]] = []
    sweeps = types.SimpleNamespace(submit=lambda manifest, **_: submitted.append(manifest))

    train.map([{"lr": 1}], name=name, client=cast("Client", types.SimpleNamespace(sweeps=sweeps)))

    assert submitted[0]["metadata"] == expected
