"""The cause of a failure in the end of a program's output."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfdist.failure_text import LONGEST_CAUSE, cause_in, same_cause

FRAMES = 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    load()\n'
ABSL = "W0000 00:00:1764052842.717 8344 context_util.cc:126] Cleanup without having been started"
TENSORFLOW = "2026-11-25 06:25:42.717000: W tensorflow/core/framework/op_kernel.cc:1842] INVALID_ARGUMENT: shapes"
GRAPH = f"""{FRAMES}tensorflow.python.framework.errors_impl.InvalidArgumentError: Graph execution error:

Detected at node dense/MatMul defined at (most recent call last):
  File "train.py", line 9, in <module>
    model.fit(x)
  File "keras/trainer.py", line 377, in fit
    self.train_function(iterator)
Incompatible shapes: [8,3] vs. [8,4]
\t [[{{{{node dense/MatMul}}}}]] [Op:__inference_train_1234]
"""
PIPELINE = f"""{FRAMES}tensorflow.python.framework.errors_impl.AlreadyExistsError: Graph execution error:

Detected at node MultiDeviceIteratorGetNextFromShard defined at (most recent call last):
<stack traces unavailable>
cache lockfile already exists ('/cache/train_0.lockfile'). If you are sure
\t [[{{{{node MultiDeviceIteratorGetNextFromShard}}}}]]
\t [[IteratorGetNextAsOptional]] [Op:__inference_train_function_826]
"""

GROUP = """  + Exception Group Traceback (most recent call last):
  |   File "train.py", line 8, in <module>
  |     load_all()
  | ExceptionGroup: two shards failed (2 sub-exceptions)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "train.py", line 4, in load
    |     open(path)
    | OSError: disk full
    +---------------- 2 ----------------
    | ValueError: shard 2
    +------------------------------------
"""
OS_ERROR = "    | Traceback (most recent call last):\n    |   File"
HANDLING = "During handling of the above exception, another exception occurred:"
SYNTAX = """Traceback (most recent call last):
  File "train.py", line 1, in <module>
    import model
  File "/code/model.py", line 7
    def f(:
          ^
SyntaxError: invalid syntax
"""
IGNORED = (
    f"{FRAMES}RuntimeError: real\nException ignored in: <function Pool.__del__ at 0x7f>\n{FRAMES}OSError: closed\n"
)

CHAIN = (
    f"{FRAMES}KeyError: 'a'\n\nDuring handling of the above exception, another exception occurred:\n\n"
    f"{FRAMES}mine.OutOfPaper: tray 2\nbye from atexit\n"
)

CAUSES = {
    "an exception": (f"epoch 1\n{FRAMES}ValueError: no column 'price'\n", "ValueError: no column 'price'"),
    "an exception of a class with any name": (f"{FRAMES}mine.OutOfPaper: tray 2", "mine.OutOfPaper: tray 2"),
    "an exception without a message": (f"{FRAMES}KeyboardInterrupt\n", "KeyboardInterrupt"),
    "a print after the exception": (f"{FRAMES}ValueError: x\nbye from atexit\n", "ValueError: x"),
    "a warning after the exception": (f"{FRAMES}ValueError: x\n{ABSL}\n{TENSORFLOW}\n", "ValueError: x"),
    "the last of several exceptions": (
        f"{FRAMES}KeyError: 'a'\n\nDuring handling of the above exception, another exception occurred:\n\n"
        f"{FRAMES}RuntimeError: b\n",
        "RuntimeError: b",
    ),
    "an exception raised from another one": (
        f"{FRAMES}OSError: no a.csv\n\nThe above exception was the direct cause of the following exception:\n\n"
        f"{FRAMES}RuntimeError: cannot load the data\n",
        "RuntimeError: cannot load the data",
    ),
    "a group of exceptions": (
        GROUP,
        "ExceptionGroup: two shards failed (2 sub-exceptions); the first: OSError: disk full",
    ),
    "a group whose first exception was raised while another one was handled": (
        GROUP.replace(OS_ERROR, f"    | KeyError: 'a'\n    | \n    | {HANDLING}\n    | \n{OS_ERROR}"),
        "ExceptionGroup: two shards failed (2 sub-exceptions); the first: OSError: disk full",
    ),
    "a syntax error in an imported file": (SYNTAX, "SyntaxError: invalid syntax (/code/model.py, line 7)"),
    "a destructor that fails after the exception": (IGNORED, "RuntimeError: real"),
    "an exit handler that fails after the exception": (
        IGNORED.replace("in: <function Pool.__del__ at 0x7f>", "in atexit callback: <function close at 0x7f>"),
        "RuntimeError: real",
    ),
    "a message that begins in its second line": (f"{FRAMES}ValueError: \nbad layer\n  x\n", "ValueError: bad layer"),
    "a message whose first line announces the others": (
        f"{FRAMES}ValueError: shapes differ:\n  expected (3,)\n  got (4,)\n",
        "ValueError: shapes differ: expected (3,)",
    ),
    "the trace of a shell script": (
        "+ set -e\n+ cp /nope .\ncp: cannot stat '/nope': No such file or directory\n",
        "cp: cannot stat '/nope': No such file or directory",
    ),
    "a script that ends with a text": ("config.yaml has no key lr\n", "config.yaml has no key lr"),
    "wrong arguments of a script": (
        "usage: train.py [-h] --lr LR\ntrain.py: error: the following arguments are required: --lr\n",
        "train.py: error: the following arguments are required: --lr",
    ),
    "an exception whose traceback is cut off": ("    load()\nOSError: disk full\nbye\n", "OSError: disk full"),
    "an exception with a message of two lines": (f"{FRAMES}ValueError: first\n  second\n", "ValueError: first"),
    "an error in a graph": (
        GRAPH,
        "tensorflow.python.framework.errors_impl.InvalidArgumentError: Incompatible shapes: [8,3] vs. [8,4]",
    ),
    "an error in an input pipeline, of which TensorFlow has no stack": (
        PIPELINE,
        "tensorflow.python.framework.errors_impl.AlreadyExistsError: cache lockfile already exists"
        " ('/cache/train_0.lockfile'). If you are sure",
    ),
    "the function of an operation before the message": (
        f"{FRAMES}InvalidArgumentError: {{{{function_node __wrapped__Merge_device_/job:worker/task:0}}}} no such file",
        "InvalidArgumentError: no such file",
    ),
    "a node in the line of the exception": (
        f"{FRAMES}InvalidArgumentError: bad label [[{{{{node x}}}}]] [Op:f]",
        "InvalidArgumentError: bad label",
    ),
    "a signal that faulthandler names": (
        'Fatal Python error: Aborted\n\nThread 0x7f (most recent call first):\n  File "a.py", line 1 in f\n\n'
        "Extension modules: numpy.linalg, h5py.h5 (total: 2)\n",
        "Fatal Python error: Aborted",
    ),
    "the end of its stacks and modules": (
        '  File "a.py", line 1 in f\n\nExtension modules: h5py.h5, scipy.linalg (total: 57)\n',
        "",
    ),
    "a part of its list of modules": (", h5py._hl, scipy.linalg (total: 57)\n", ""),
    "no exception": (f"loading\nno such table\n{ABSL}\n{TENSORFLOW}\n\t [[node]]\n", "no such table"),
    "log messages alone": (f"{TENSORFLOW}\n{ABSL}\n", ABSL),
    "a traceback that ends in its frames": (FRAMES, "load()"),
    "nothing": ("\n \n", ""),
}


@pytest.mark.parametrize(("output", "cause"), CAUSES.values(), ids=CAUSES)
def test_the_cause_is_found_in_the_output(output: str, cause: str) -> None:
    assert cause_in(output) == cause


SHAPES = "Incompatible shapes: [8,3] vs. [8,4]"
LOCKFILE = "cache lockfile already exists ('/cache/train_0.lockfile'). If you are sure"
CUT = {
    "before an error in a graph": (
        GRAPH,
        "tensorflow.python.framework.errors_impl.Inv",
        f"tensorflow.python.framework.errors_impl.InvalidArgumentError: {SHAPES}",
    ),
    "in the type of an error in a graph": (GRAPH, "ArgumentError: Graph", f"ArgumentError: {SHAPES}"),
    "after the type of an error in a graph": (PIPELINE, "Graph execution", f"Graph execution error: {LOCKFILE}"),
    "between the frames of a graph": (GRAPH, '  File "keras/trainer.py"', SHAPES),
    "before a group": (
        GROUP,
        '  |   File "train.py", line 8',
        "ExceptionGroup: two shards failed (2 sub-exceptions); the first: OSError: disk full",
    ),
    "in a group": (GROUP, '    |   File "train.py", line 4', "OSError: disk full"),
    "in a group, before an exception that another one was handled for": (
        GROUP.replace(OS_ERROR, f"    | KeyError: 'a'\n    | \n    | {HANDLING}\n    | \n{OS_ERROR}"),
        "    | KeyError",
        "OSError: disk full",
    ),
    "in a syntax error": (
        SYNTAX,
        '  File "/code/model.py"',
        "SyntaxError: invalid syntax (/code/model.py, line 7)",
    ),
    "after the position of a syntax error": (SYNTAX, "    def f(:", "SyntaxError: invalid syntax"),
    "in the last of several exceptions": (
        CHAIN[CHAIN.rindex("Traceback") :],
        '  File "train.py"',
        "mine.OutOfPaper: tray 2",
    ),
    "before a message that begins in its second line": (
        f"{FRAMES}ValueError:\nbad layer\n",
        '  File "train.py"',
        "ValueError: bad layer",
    ),
    "before a destructor that fails after the exception": (
        IGNORED,
        "    load()\nRuntimeError: real",
        "RuntimeError: real",
    ),
}


@pytest.mark.parametrize(("output", "kept_from", "cause"), CUT.values(), ids=CUT)
def test_the_cause_is_found_in_an_output_that_was_cut_after_its_line_traceback(
    output: str, kept_from: str, cause: str
) -> None:
    assert cause_in(output[output.index(kept_from) :]) == cause


@given(st.text(max_size=3000))
def test_any_output_has_a_cause_of_one_bounded_line_unless_it_is_blank(output: str) -> None:
    cause = cause_in(output)
    assert len(cause) <= LONGEST_CAUSE
    assert len(cause.splitlines()) <= 1
    assert bool(cause) or not output.strip()


def test_causes_are_the_same_if_they_differ_in_numbers_only() -> None:
    assert same_cause("RuntimeError: thread 0x7f31 at 12:01:02", "RuntimeError: thread 0x7aa0 at 12:09:44")
    assert same_cause("ValueError: step 12", "ValueError: step 9")
    assert not same_cause("ValueError: no column a", "ValueError: no column b")
