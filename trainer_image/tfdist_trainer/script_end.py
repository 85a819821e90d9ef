"""How the script of this process ends, decided in one place: what it has trained is final only if it ends with 0.

Only code around a script knows its exit code: handlers of `atexit` do not get it, and may start no threads since
Python 3.12. So `run` is around every script of a job: in the fork of a launcher, and in an interpreter that was started
with the script, which `tfdist_trainer_keras.pth` starts again with `run_script`. The end of a child process of
`multiprocessing` is the end of its function (`follow_children`).

It is around every interpreter in a pod, so it imports at once only what starts in milliseconds.
"""

import atexit
import builtins
import contextlib
import functools
import os
import pkgutil
import runpy
import sys
import threading
import types
from collections.abc import Callable
from multiprocessing import process
from pathlib import Path
from types import TracebackType
from typing import Final, NoReturn

from tfdist.failure_text import cause_in  # at once: the script's folder, searched later, may have a `tfdist.py`
from tfdist_trainer.python_command import CommandKind, PythonCommand

COMPLETED: Final = "Completed"
"""As in `tfdist.contract_reports`, which is not imported for it: that takes longer than Python's start."""
_SCRIPT_ENV: Final = "TFDIST_SCRIPT_PROCESS"
"""Process and `TF_CONFIG` of a script, which processes that it starts inherit."""
_STATUSES: Final = 256
"""The kernel keeps the lowest byte of an exit status."""
_POLL_SECONDS: Final = 0.1

MessageWriter = Callable[[str, str], None]
"""Writes a termination message of a reason and a text."""


class _Process:
    """What is to be done when the script of this process ends."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.when_succeeded: list[Callable[[], object]] = []
        self.write_message: MessageWriter | None = None
        self.peers_wait = False
        """Whether threads of TensorFlow wait for other workers, which the interpreter's end would wait for."""
        self.failed_with: int | None = None


_processes: list[_Process] = []


def _this_process() -> _Process:
    """Return the state of this process; a fork begins without what was registered in its parent."""
    # A fork begins without what its parent has registered.
    if not _processes or _processes[0].pid != os.getpid():
        _processes[:] = [_Process()]
    return _processes[0]


def when_succeeded(function: Callable[[], object]) -> None:
    """Call `function` once when the script has ended with 0; a `TrainerError` of it is the end of the process.

    In a child process of `multiprocessing` that is when the function has returned that the child was started for.
    """
    _this_process().when_succeeded.append(function)


def report_with(write: MessageWriter) -> None:
    """Write the termination message of this process by `write`, which adds what the script has reported."""
    _this_process().write_message = write


def leave_at_once() -> None:
    """End this process right after its handlers of `atexit`, if the script ends with an error."""
    _this_process().peers_wait = True


def leave(reason: str, message: str, exit_code: int) -> NoReturn:
    """End this process at once: the interpreter's end waits for other workers."""
    _write_message(reason, message)
    _exit(exit_code)


def leave_with(error: Exception) -> NoReturn:
    """End this process at once with the message and the exit code of an error, see `errors.classify`."""
    from tfdist_trainer import errors, log  # noqa: PLC0415

    failure = errors.classify(error)
    log.error(f"tfdist_trainer: {failure.message}")
    leave(failure.reason, failure.message, failure.exit_code)


def run(command: PythonCommand) -> None:
    """Run a script as the interpreter would, and then what `when_succeeded` has registered, if it has ended with 0.

    Raises:
        SystemExit: the script has ended with another exit status.
    """
    follow_children()
    inherited = os.environ.get(_SCRIPT_ENV, "").partition(" ")
    if inherited[2] != _tf_config() or not inherited[0]:
        # Programs that the script starts inherit it, and see by the PID that they are not the replica.
        os.environ[_SCRIPT_ENV] = f"{os.getpid()} {_tf_config()}"
    atexit.register(_leave_peers)  # now: handlers that are registered later run before it
    try:
        _execute(command)
    except SystemExit as end:
        if status_of(end.code):
            _fail(end)
            raise
    except KeyboardInterrupt:  # the interpreter ends by its signal
        raise
    except BaseException as error:
        error.__traceback__ = _script_frames(error.__traceback__)
        sys.excepthook(type(error), error, error.__traceback__)
        raise SystemExit(_fail(error)) from None
    # Training in a thread may still run, as the interpreter would wait for it.
    _await_threads()
    _succeed()


def is_replica() -> bool:
    """Return whether this process runs the script of a replica, with the `TF_CONFIG` that it was started with.

    No process that the script starts is one: only one process of a replica can be a member of its gang.
    """
    return os.environ.get(_SCRIPT_ENV) == f"{os.getpid()} {_tf_config()}"


def _tf_config() -> str:
    return os.environ.get("TF_CONFIG", "")


def follow_children() -> None:
    """Make the child processes of `multiprocessing` finish what they have trained when their function has returned.

    Not by a handler at their end: that does not see their exit status, and since Python 3.13 can start no thread.
    """
    original = process.BaseProcess.run
    # Wrapped already, in this process or before a fork.
    if hasattr(original, "__wrapped__"):
        return

    @functools.wraps(original)
    def run_child(self: process.BaseProcess) -> None:
        try:
            original(self)
        except SystemExit as end:
            if not status_of(end.code):
                _succeed()
            raise
        _succeed()

    process.BaseProcess.run = run_child  # type: ignore[method-assign]


def status_of(code: object) -> int:
    """Return the exit status of a process that `sys.exit(code)` ends (`_Py_HandleSystemExit` of CPython)."""
    if code is None:
        return 0
    return code % _STATUSES if isinstance(code, int) else 1


def _execute(command: PythonCommand) -> None:
    sys.argv = [command.target, *command.arguments]
    if command.kind is CommandKind.MODULE:
        _search_first(Path.cwd())
        runpy.run_module(command.target, run_name="__main__", alter_sys=True)
    elif command.kind is CommandKind.SCRIPT:
        _execute_path(command.target)
    elif command.kind is CommandKind.INPUT:
        _search_first(Path())
        code = compile(sys.stdin.buffer.read(), "<stdin>", "exec", dont_inherit=True)
        _execute_main(code, __file__="<stdin>")
    else:
        sys.argv[0] = "-c"
        _search_first(Path())
        _execute_main(compile(command.target, "<string>", "exec", dont_inherit=True))


def _execute_path(path: str) -> None:
    """Run a script, or what only `runpy` knows to run: a folder, an archive or bytecode.

    `runpy` gives a script a relative `__file__`, and does not follow links to the modules next to it.
    """
    # Folders, archives and bytecode are for `runpy`; a plain script gets an absolute `__file__`.
    if pkgutil.get_importer(path) is not None or path.endswith(".pyc"):
        runpy.run_path(path, run_name="__main__")
        return
    script = Path(path).absolute()
    _search_first(script.resolve().parent)
    code = compile(script.read_bytes(), str(script), "exec", dont_inherit=True)
    _execute_main(code, __file__=str(script), __cached__=None)


def _execute_main(code: types.CodeType, **attributes: str | None) -> None:
    # Pickle and `multiprocessing` look for the script's classes there.
    sys.modules["__main__"] = main = types.ModuleType("__main__")
    vars(main).update(attributes, __builtins__=builtins)
    exec(code, vars(main))  # noqa: S102  the command is the user's own


def _search_first(folder: Path) -> None:
    if not sys.flags.safe_path:
        sys.path.insert(0, str(folder) if folder.is_absolute() else "")


def _await_threads() -> None:
    """Wait for the threads that the script has left, as the interpreter does at its end."""
    for thread in threading.enumerate():
        if thread is threading.current_thread() or thread.daemon:
            continue
        # A pool's threads wait for tasks until the end of the interpreter, which is never reached by waiting.
        while thread.is_alive() and not _waits_in_pool(thread):
            thread.join(_POLL_SECONDS)


def _waits_in_pool(thread: threading.Thread) -> bool:
    """Return whether a thread of a `ThreadPoolExecutor` waits for a task: it does until the interpreter ends."""
    pool = sys.modules.get("concurrent.futures.thread")
    frame = sys._current_frames().get(thread.ident or 0)  # noqa: SLF001  documented
    return pool is not None and frame is not None and frame.f_code.co_filename == pool.__file__


def _succeed() -> None:
    for function in _this_process().when_succeeded:
        _finish(function)
    _write_message(COMPLETED, "")


def _finish(function: Callable[[], object]) -> None:
    from tfdist_trainer import errors  # noqa: PLC0415

    try:
        function()
    except Exception as error:  # the script has ended, but what was asked of its job does not exist
        if not isinstance(error, errors.TrainerError):
            sys.excepthook(type(error), error, error.__traceback__)
        leave_with(error)


def _fail(error: BaseException) -> int:
    """Write the termination message of an error that ends the script, and return the exit status."""
    from tfdist_trainer import errors  # noqa: PLC0415

    if isinstance(error, SystemExit):
        status, reason = status_of(error.code), "Exit"
        message = cause_in(error.code) if isinstance(error.code, str) else ""
    else:
        failure = errors.classify(error)
        # An error with these words that has nothing to do with training stays an error of the script.
        lost = failure.reason == errors.PeerLostError.reason and _this_process().peers_wait
        status, reason, message = int(failure.exit_code) if lost else 1, failure.reason, failure.message
    _write_message(reason, message)
    _this_process().failed_with = status
    return status


def _leave_peers() -> None:
    """End a process whose `fit` has failed under several workers: the interpreter may abort at its end, with 134."""
    status = _this_process().failed_with
    # The end of the interpreter would wait for the peers, or abort with 134.
    if _this_process().peers_wait and status is not None:
        _exit(status)


def _exit(status: int) -> NoReturn:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError, ValueError):  # the script may have closed it
            stream.flush()
    os._exit(status)


def _write_message(reason: str, message: str) -> None:
    """Write a termination message with the report of the script; without reports only a text, if there is none yet."""
    if (write := _this_process().write_message) is not None:
        write(reason, message)
    elif message:
        from tfdist_trainer import termination  # noqa: PLC0415

        termination.write_unless_present(termination.path_from(os.environ), message)


def _script_frames(frames: TracebackType | None) -> TracebackType | None:
    """Return the traceback of an exception without the frames of this module and of `runpy`; all if no other is."""
    frame = frames
    while frame is not None and frame.tb_frame.f_code.co_filename in {__file__, runpy.__file__, "<frozen runpy>"}:
        frame = frame.tb_next
    return frame or frames
