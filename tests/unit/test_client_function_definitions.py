"""The definition of a function that becomes a job: its options, arguments, and what makes it impossible."""

import math
import pathlib
from typing import Any

import pytest
from support.job_functions import cell, run

import tfdist
from tfdist.api.status import JobPhase
from tfdist.client.errors import FunctionError
from tfdist.client.job import Job
from tfdist.client.job_handle import JobHandle


@pytest.fixture(autouse=True)
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """The current folder, in which archives are unpacked."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


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

    with pytest.raises(FunctionError, match=r"^train: the function has its own spec\.training\.script"):
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
        ("@tfdist.job\ndef f(client): ...", "^f: submit has a parameter client too; rename it"),
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
