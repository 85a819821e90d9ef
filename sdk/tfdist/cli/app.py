"""The command `tfdist`: its groups of commands, global options, and what an exception prints."""

import os
import sys
import traceback
from collections.abc import Callable
from typing import Annotated, Any, NoReturn

import typer
from typer.exceptions import TyperException

from tfdist import __version__
from tfdist.cli.command_line import CommandGroup
from tfdist.cli.declarations.control import control
from tfdist.cli.declarations.evaluate import evaluate
from tfdist.cli.declarations.init import init
from tfdist.cli.declarations.jobs import jobs
from tfdist.cli.declarations.logs import logs
from tfdist.cli.declarations.offline import offline
from tfdist.cli.declarations.submit import submit
from tfdist.cli.declarations.sweep_group import sweep_group
from tfdist.cli.declarations.tools import tools
from tfdist.cli.declarations.usage import usage
from tfdist.cli.errors import MISSING_EXTRA, CommandError
from tfdist.cli.exit_code import ExitCode
from tfdist.cli.output import message
from tfdist.client.errors import ClientError


class _Commands(CommandGroup):
    """Exits with the integer that a command returns, or with the exit code for the exception that it raises."""

    def invoke(self, ctx: Any) -> NoReturn:
        raise typer.Exit(_guarded(lambda: super(_Commands, self).invoke(ctx), debug=ctx.params["debug"]))


app = typer.Typer(
    cls=_Commands,
    help="Distributed TensorFlow on Kubernetes.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # Rich would take half of the time of `--help`
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)

app.add_typer(submit)
app.add_typer(evaluate)
app.add_typer(jobs)
app.add_typer(control)
app.add_typer(logs)
app.add_typer(sweep_group)
app.add_typer(tools)
app.add_typer(usage)
app.add_typer(init)
app.add_typer(offline)


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
        return ExitCode.FAILED
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        # the reader, such as `head`, has closed the pipe; Python would report it again at the flush at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.CLOSED_PIPE
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and str(error.name).partition(".")[0] == "yaml":
            print(MISSING_EXTRA, file=sys.stderr)
            return ExitCode.FAILED
        return _report_bug(error, debug=debug)
    return code


def _report_bug(error: Exception, *, debug: bool) -> int:
    if debug:
        traceback.print_exception(error)
    advice = "report it with the file and" if debug else "run again with --debug, and report it with"
    text = f"internal error ({type(error).__name__}: {error}). This is a bug: {advice} the text"
    message(f"tfdist {__version__}: {text}")
    return ExitCode.BUG
