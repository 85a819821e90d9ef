"""Declaration of the command `tfdist` and its options.

A command imports its implementation (`tfdist.cli.commands`) when
it runs, so that help and completion import neither the models nor a YAML parser.
"""

import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NoReturn

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException

from tfdist import __version__
from tfdist.cli.errors import MISSING_EXTRA, CommandError

_USAGE: Final = 2
_BUG: Final = 70
_INTERRUPTED: Final = 130
_CLOSED_PIPE: Final = 141


class _Commands(TyperGroup):
    """Exits with the integer that a command returns, or with the exit code for the exception that it raises."""

    def invoke(self, ctx: Any) -> NoReturn:
        raise typer.Exit(_guarded(lambda: super(_Commands, self).invoke(ctx), debug=ctx.params["debug"]))


app = typer.Typer(
    cls=_Commands,
    help="Distributed TensorFlow on Kubernetes. These commands need no cluster.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)

Files = Annotated[list[str], typer.Argument(metavar="FILE", help="YAML or JSON; a folder; - for standard input.")]
File = Annotated[str, typer.Argument(metavar="FILE", help="YAML or JSON; a folder; - for standard input.")]
ManifestFormat = Annotated[Literal["yaml", "json"], typer.Option("-o", "--output", help="Output format.")]


@app.command()
def validate(
    files: Files,
    *,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Print errors only: no warnings, no summary.")] = False,
    output: Annotated[Literal["text", "json"], typer.Option("-o", "--output", help="Output format.")] = "text",
) -> int:
    """Check TFDistJobs offline.

    Prints a line FILE:LINE: PATH: MESSAGE for each problem, and a summary on standard error. A line with `warning:`
    concerns a valid job and does not change the exit code. Documents of other kinds are skipped.

    Exit code: 0 all valid, 1 problems found, 2 unreadable file.
    """
    from tfdist.cli.commands import validate as command  # noqa: PLC0415  imported on demand

    return command.execute(files, quiet=quiet, in_json=output == "json")


@app.command()
def render(
    file: File,
    namespace: Annotated[str, typer.Option("-n", "--namespace", help="Namespace of jobs without one.")] = "default",
    image: Annotated[str, typer.Option(help="Trainer image of jobs without an image.")] = "tfdist/trainer",
    output: ManifestFormat = "yaml",
) -> int:
    """Print every object that the controller would create.

    The objects are in the order of their creation. Nothing is sent to a cluster.

    Exit code: 0 rendered, 1 a job is invalid or there is none, 2 unreadable file.
    """
    from tfdist.cli.commands import render as command  # noqa: PLC0415  imported on demand

    return command.execute(file, namespace=namespace, image=image, in_json=output == "json")


@app.command()
def convert(files: Files, output: ManifestFormat = "yaml") -> int:
    """Convert TFJobs (kubeflow.org/v1) to TFDistJobs.

    Prints all documents in order: TFJobs converted, with notes as comments, all others unchanged. The notes are also
    written to standard error as FILE:LINE: PATH: MESSAGE, with lines and paths of the TFJob.

    Exit code: 0 converted, 1 a TFJob cannot be converted or its result is invalid, 2 unreadable file.
    """
    from tfdist.cli.commands import convert as command  # noqa: PLC0415  imported on demand

    return command.execute(files, in_json=output == "json")


@app.command()
def run(
    file: Annotated[
        str,
        typer.Argument(metavar="FILE", help="YAML or JSON: one job and its ConfigMaps; a folder; or a script, *.py."),
    ],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[-- ARGUMENTS]", help="Arguments of the script.")
    ] = None,
    *,
    local: Annotated[bool, typer.Option("--local", help="On this machine; the only mode of this version.")],
    workers: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Workers that run the script; by default 1.")
    ] = None,
    state: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Logs, volumes and status.json; default .tfdist/JOB.")
    ] = None,
    volume: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=FOLDER", help="Folder of a volume or claim; `checkpoint` is checkpoint.volume."),
    ] = None,
    command: Annotated[
        str, typer.Option(metavar="COMMAND", help="Entry point of the image, such as 'python train.py'.")
    ] = "",
    in_place: Annotated[
        bool, typer.Option("--in-place", help="Restart a gang in place, within the limits of its runPolicy.")
    ] = False,
) -> int:
    """Run a job as processes of this machine.

    Each replica is a process with the environment variables of its pod. Restarts, deadlines, evaluation and the end are
    those of a cluster. Ctrl-C suspends the job: its replicas stop within their grace periods, a second Ctrl-C kills
    them; no process outlives the run.

    Exit code: 0 succeeded, 1 the job is invalid or needs a cluster, 2 unreadable file, 124 a deadline was exceeded, 130
    or 143 suspended by a signal; otherwise that of the replica that failed the job.
    """
    from tfdist.cli.commands import run as implementation  # noqa: PLC0415  imported on demand

    if not local:
        raise typer.BadParameter("only local runs are supported: give --local")
    return implementation.execute(
        file,
        arguments or (),
        workers=workers,
        state=state,
        volumes=volume or (),
        entry_point=command,
        in_place=in_place,
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
    except CommandError as error:
        print(error, file=sys.stderr)
        return _USAGE
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        # the reader, such as `head`, has closed the pipe; Python would report it again at the flush at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _CLOSED_PIPE
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and str(error.name).partition(".")[0] == "yaml":
            print(MISSING_EXTRA, file=sys.stderr)
            return _USAGE
        return _report_bug(error, debug=debug)
    return code


def _report_bug(error: Exception, *, debug: bool) -> int:
    if debug:
        traceback.print_exception(error)
    advice = "report it with the file and" if debug else "run again with --debug, and report it with"
    text = f"internal error ({type(error).__name__}: {error}). This is a bug: {advice} the text"
    print(f"tfdist {__version__}: {text}", file=sys.stderr)
    return _BUG
