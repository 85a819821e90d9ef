"""Functions that become jobs: what is sent of them, arguments, and functions for which it is not possible."""

import importlib.util
import io
import json
import linecache
import math
import pathlib
import subprocess
import sys
import tarfile
import types
from typing import Any

import pytest

import tfdist
from tfdist.api.status import JobPhase
from tfdist.client.code_archive import CodeArchive
from tfdist.client.errors import CodeError, FunctionError
from tfdist.client.function import ARGUMENTS, JobFunction
from tfdist.client.function_script import SCRIPT
from tfdist.client.handle import JobHandle
from tfdist.client.job import Job

Function = JobFunction[..., Any]

SDK = str(pathlib.Path(tfdist.__file__).parents[1])

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


def cell(source: str, name: str = "train") -> Function:
    """Return a function of a notebook, whose cell has this source; the notebook imports tfdist."""
    file = f"<cell {len(linecache.cache)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    variables: dict[str, Any] = {"__name__": "__main__", "tfdist": tfdist}
    exec(compile(source, file, "exec"), variables)  # noqa: S102  as a notebook does
    function: Function = variables[name]
    return function


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


def unpacked(archive: CodeArchive, folder: pathlib.Path) -> pathlib.Path:
    with tarfile.open(fileobj=io.BytesIO(archive.content)) as packed:
        packed.extractall(folder, filter="data")
    return folder


def run(archive: CodeArchive, *, installed: bool = True, code: int = 0) -> str:
    """Return the output of the script of an archive, in a folder and process of its own, with tfdist or without it."""
    script = unpacked(archive, pathlib.Path("unpacked").resolve()) / SCRIPT
    options, environment = ([], {"PYTHONPATH": SDK}) if installed else (["-S"], {})
    command = [sys.executable, *options, str(script)]
    ended = subprocess.run(command, env=environment, capture_output=True, check=False, text=True)
    assert ended.returncode == code, ended.stderr
    return ended.stdout if code == 0 else ended.stderr


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


# The job


def test_options_become_fields_of_the_job() -> None:
    options = (
        """workers=4, gpus=1, image="team/tf:1", name="fashion", checkpoint="gs://b/{name}", env={"MODE": "fast"}"""
    )
    further = """spec={"runPolicy": {"backoffLimit": 1}, "resources": {"limits": {"cpu": 2}}}"""

    manifest, _ = cell(f"@tfdist.job({options}, {further})\ndef train(): ...\n").prepare()

    assert manifest["metadata"]["name"] == "fashion"
    assert manifest["spec"] == {
        "worker": {"replicas": 4},
        "training": {"script": "tfdist_call.py"},
        "image": "team/tf:1",
        "resources": {"limits": {"nvidia.com/gpu": 1, "cpu": 2}},
        "checkpoint": {"directory": "gs://b/{name}"},
        "env": [{"name": "MODE", "value": "fast"}],
        "runPolicy": {"backoffLimit": 1},
    }


def test_the_specification_cannot_replace_the_function() -> None:
    train = cell('@tfdist.job(spec={"training": {"script": "x.py"}})\ndef train(): ...\n')

    with pytest.raises(FunctionError, match=r"^train: spec\.training\.script is that of the function"):
        train.prepare()


# Arguments


class Single:
    """A number that a library has instead of Python's."""

    def tolist(self) -> float:
        return 1.0


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (object(), r"argument x is not JSON but of type object; pass a number"),
        ((1, 2), r"argument x is not JSON but of type tuple; pass a list"),
        ([{"a": {1}}], r"argument x\[0\]\['a'\] is not JSON but of type set; pass a list"),
        (Single(), r"argument x is not JSON but of type Single; pass its value by \.tolist\(\)"),
        (math.nan, r"argument x is nan, which is not JSON"),
        ({1: 2}, r"argument x: the key 1 is not JSON; use a string"),
    ],
)
def test_an_argument_that_is_not_json_is_named(value: Any, message: str) -> None:
    with pytest.raises(FunctionError, match=f"^train: {message}"):
        cell("@tfdist.job\ndef train(x): ...\n").prepare(x=value)


def test_arguments_that_the_function_does_not_take_are_named() -> None:
    with pytest.raises(TypeError, match=r"^train\(lr\): got an unexpected keyword argument 'rate'$"):
        cell("@tfdist.job\ndef train(lr): ...\n").prepare(1, rate=2)


def test_further_keyword_arguments_are_passed() -> None:
    _, archive = cell("@tfdist.job\ndef train(**options):\n    print(options)\n").prepare(a=1, b=[None])

    assert run(archive) == "{'a': 1, 'b': [None]}\n"


# Functions that cannot become jobs


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("f = tfdist.job(lambda: 1)", "a lambda cannot become a job; write def NAME"),
        ("f = tfdist.job(print)", "is not a function; write def NAME"),
        ("class A:\n    @tfdist.job\n    def f(self): ...", r"^A\.f is a method: define a function outside of"),
        ("def outer():\n    x = 1\n    @tfdist.job\n    def f(): return x\nouter()",
         r"^f is defined inside of another function: define it outside; it uses x of that function: pass"),
        ("@tfdist.job\nasync def f(): ...", "^f is asynchronous or a generator"),
        ("@tfdist.job\ndef f(*rest): ...", "^f: the parameter rest has no name in a call"),
        ("@tfdist.job\ndef f(client): ...", "^f: the parameter client is that of submit; rename it"),
        ("import functools\ndef w(f): return functools.wraps(f)(lambda: f())\n@tfdist.job\n@w\ndef f(): ...",
         "cannot become a job|has another decorator than tfdist.job"),
    ],
)  # fmt: skip
def test_a_function_that_the_job_cannot_find_is_rejected_at_its_definition(source: str, message: str) -> None:
    with pytest.raises(FunctionError, match=message):
        cell(f"{source}\n", "f")


def test_a_second_decorator_is_named() -> None:
    train = cell("def keep(f): return f\n@keep\n@tfdist.job(workers=2)\ndef train(): ...\n")

    with pytest.raises(FunctionError, match=r"^train has @keep: remove other decorators than tfdist.job"):
        train.prepare()


def test_names_of_the_notebook_are_listed_by_what_to_do_about_them() -> None:
    train = cell("""
import json
from pathlib import Path
rate, depth = 1, 2
def helper(): ...
@tfdist.job
def train(layers=depth):
    values = [rate * json.loads(x) for x in "12"]
    class Own:
        size = len(values)
    return Path(helper()), Own.size, train, missing, values.depth
""")

    with pytest.raises(FunctionError) as error:
        train.prepare()

    assert str(error.value) == (
        "train uses names of the notebook, which its job does not have; import inside of it: Path, json; "
        "pass as arguments: depth, rate; define inside of it: helper, missing"
    )


def test_a_function_without_a_source_is_rejected() -> None:
    variables: dict[str, Any] = {"tfdist": tfdist, "__name__": "__main__"}
    exec("@tfdist.job\ndef train(): ...", variables)  # noqa: S102  as `python -c`

    with pytest.raises(FunctionError, match=r"^the source of train is not available: define it in a file"):
        variables["train"].prepare()


# Handles


def test_a_handle_is_shown_with_its_phase_and_progress_and_escaped_in_a_notebook() -> None:
    status = {"phase": "Running", "summary": {"progress": "40%", "message": "<b>waits</b>\x1b[2J"}}
    job = Job({"metadata": {"name": "fashion", "namespace": "team", "uid": "1"}, "status": status})
    unused: Any = None  # no request is sent
    handle = JobHandle(unused, job)

    assert handle.job.phase is JobPhase.RUNNING
    assert repr(handle) == "<Job fashion Running 40% <b>waits</b> [2J>"
    assert handle._repr_html_() == ("<b>fashion</b> Running &middot; 40% &middot; &lt;b&gt;waits&lt;/b&gt; [2J")
