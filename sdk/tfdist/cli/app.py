"""The command `tfdist`: its groups of commands, global options, and what an exception prints."""

import os
import sys
import traceback
from collections.abc import Callable
from typing import Annotated, Any, NoReturn

import typer
from typer.exceptions import TyperException

from tfdist import __version__
from tfdist.cli.command_line import LazyGroup
from tfdist.cli.command_table import COMMANDS, SWEEP_COMMANDS, SWEEP_HELP
from tfdist.cli.errors import CommandError, missing_package
from tfdist.cli.exit_code import CommandExitCode
from tfdist.cli.kinds import SWEEP
from tfdist.cli.output import message
from tfdist.client.errors import ClientError


class _Commands(LazyGroup):
    """Exits with the integer that a command returns, or with the exit code for the exception that it raises."""

    entries = COMMANDS

    def invoke(self, ctx: Any) -> NoReturn:
        raise typer.Exit(_guarded(lambda: super(_Commands, self).invoke(ctx), debug=ctx.params["debug"]))


class _Sweeps(LazyGroup):
    """The commands for sweeps: a name without a kind is the name of a sweep."""

    entries = SWEEP_COMMANDS


app = typer.Typer(
    cls=_Commands,
    help="Distributed TensorFlow on Kubernetes.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # Rich would take half of the time of `--help`
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)

app.add_typer(
    typer.Typer(
        name="sweep",
        cls=_Sweeps,
        help=SWEEP_HELP,
        no_args_is_help=True,
        rich_markup_mode=None,
        context_settings={"max_content_width": 120, "obj": SWEEP},
    )
)


def _print_version(value: bool) -> None:
    if value:
        print(f"tfdist {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", envvar="TFDIST_DEBUG", help="Print the traceback of an internal error.")
    ] = False,
) -> None: ...


def _guarded(command: Callable[[], int], *, debug: bool) -> int:
    """Return the exit code of `command`; report an exception in one line, without a traceback.

    Raises:
        typer.Exit, TyperException: for Typer itself, such as a usage error.
    """
    for stream in (sys.stdout, sys.stderr):
        if reconfigure := getattr(stream, "reconfigure", None):
            # a file name in another encoding is written with escapes
            reconfigure(errors="backslashreplace")
    try:
        code = command()
        sys.stdout.flush()
    except (typer.Exit, TyperException):
        raise
    except (CommandError, ClientError) as error:
        message(error)
        return CommandExitCode.FAILED
    except KeyboardInterrupt:
        return CommandExitCode.INTERRUPTED
    except BrokenPipeError:
        # the reader, such as `head`, has closed the pipe; Python would report it again at the flush at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CommandExitCode.CLOSED_PIPE
    except Exception as error:
        if advice := missing_package(error):
            message(advice)
            return CommandExitCode.FAILED
        return _report_bug(error, debug=debug)
    return code


def _report_bug(error: Exception, *, debug: bool) -> int:
    if debug:
        traceback.print_exception(error)
    advice = "report it with the file and" if debug else "run again with --debug, and report it with"
    text = f"internal error ({type(error).__name__}: {error}). This is a bug: {advice} the text"
    message(f"tfdist {__version__}: {text}")
    return CommandExitCode.BUG
