"""The command `tfdist`, which is `kubectl tfdist` too.

A command is a module of this package with `configure(parser)`, `run(options) -> exit code` and `DETAILS`, the
end of its help. Only the module of the command that was asked for is imported, so that help and short commands start
at once.
"""

import argparse
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Final

from tfdist import __version__
from tfdist.cli.errors import CommandError

COMMANDS: Final = {
    "run": "run a job as processes of this machine",
    "validate": "check TFDistJobs, offline",
    "render": "print every object that the controller would make",
    "convert": "make TFDistJobs of TFJobs (kubeflow.org)",
}

_USAGE: Final = 2
_BUG: Final = 70
_INTERRUPTED: Final = 130
_CLOSED_PIPE: Final = 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line `arguments`, by default the process's own, and return the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in given or bool(os.environ.get("TFDIST_DEBUG"))
    return _guarded(lambda: _run(given), debug=debug)


def _run(arguments: list[str]) -> int:
    chosen = next((argument for argument in arguments if not argument.startswith("-")), None)
    module = _import(chosen) if chosen in COMMANDS else None
    parser = _parser(chosen, module)
    options = parser.parse_args(arguments)
    if module is None:
        parser.print_help()
        return _USAGE
    code: int = module.run(options)
    sys.stdout.flush()
    return code


def _import(command: str | None) -> ModuleType:
    try:
        return import_module(f"tfdist.cli.{command}")
    except ModuleNotFoundError as error:
        if error.name and error.name.partition(".")[0] == "yaml":
            raise CommandError("reading manifests needs PyYAML: pip install 'tfdist[cli]'") from None
        raise


def _parser(chosen: str | None, module: ModuleType | None) -> argparse.ArgumentParser:
    program = Path(sys.argv[0]).name
    name = "kubectl tfdist" if program == "kubectl-tfdist" else "tfdist"
    parser = argparse.ArgumentParser(prog=name, description="Distributed TensorFlow on Kubernetes.")
    parser.add_argument("--version", action="version", version=f"tfdist {__version__}")
    parser.add_argument("--debug", action="store_true", help="show where an internal error comes from (TFDIST_DEBUG)")
    commands = parser.add_subparsers(metavar="COMMAND", title="commands")
    for command, summary in COMMANDS.items():
        made = commands.add_parser(command, help=summary, formatter_class=argparse.RawDescriptionHelpFormatter)
        made.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
        if module and command == chosen:
            made.description = f"{summary[:1].upper()}{summary[1:]}.\n\n{module.DETAILS}"
            module.configure(made)
    return parser


def _guarded(run: Callable[[], int], *, debug: bool) -> int:
    """Return the exit code of `run`, or that of what it raises, told in a line instead of a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if reconfigure := getattr(stream, "reconfigure", None):
            # a file's name may be in another encoding: written as escapes it is still a name
            reconfigure(errors="backslashreplace")
    try:
        return run()
    except CommandError as error:
        print(error, file=sys.stderr)
        return _USAGE
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        # the reader, such as `head`, has enough; Python would complain again when it flushes at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _CLOSED_PIPE
    except Exception as error:
        if debug:
            traceback.print_exc()
        advice = "report it with the file and" if debug else "run again with --debug, and report it with"
        text = (
            f"tfdist {__version__}: internal error ({type(error).__name__}: {error}). This is a bug: {advice} the text"
        )
        print(text, file=sys.stderr)
        return _BUG
