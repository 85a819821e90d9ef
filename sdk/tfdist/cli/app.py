"""The command `tfdist`: its commands, global options, and what an exception prints."""

import os
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, NoReturn

import typer
from typer.exceptions import TyperException

from tfdist import __version__
from tfdist.cli.command_line import Entry, LazyGroup
from tfdist.cli.errors import CommandError, CommandExitCode, missing_package
from tfdist.cli.kinds import SWEEP
from tfdist.cli.output import message
from tfdist.client.errors import ClientError

SWEEP_HELP: Final = "Run and compare trials of a job with different values of parameters."
COMMANDS: Final[Mapping[str, Entry]] = {
    "submit": Entry("submit:submit", "Create a job in a cluster, from a manifest or a command."),
    "run": Entry("run:run", "Run a job and follow it to its end, in a cluster or as processes on this machine."),
    "evaluate": Entry("evaluate:evaluate", "Evaluate a checkpoint of a job, or an ensemble, with a new job."),
    "list": Entry("show:list_", "List jobs or sweeps."),
    "get": Entry("show:get", "Show one job or sweep."),
    "describe": Entry("show:describe", "Show everything about a job or sweep."),
    "events": Entry("show:events", "Show the events of a job and its pods."),
    "wait": Entry("control:wait", "Wait until a job or sweep has ended, or reaches a phase."),
    "suspend": Entry("control:suspend", "Suspend jobs or sweeps."),
    "resume": Entry("control:resume", "Resume suspended jobs or sweeps."),
    "restart": Entry("control:restart", "Restart the gangs of jobs."),
    "scale": Entry("control:scale", "Set the number of workers of a job that is suspended or has not started."),
    "delete": Entry("control:delete", "Delete jobs or sweeps."),
    "logs": Entry("logs:logs", "Print the logs of the replicas of a job."),
    "attach": Entry("attach:attach", "Follow a job or sweep to its end."),
    "sweep": Entry("", SWEEP_HELP),
    "port-forward": Entry("port_forward:port_forward", "Forward ports of this machine to a replica, until Ctrl-C."),
    "tensorboard": Entry("port_forward:tensorboard", "Open the TensorBoard of a job that sets `spec.tensorBoard`."),
    "shell": Entry("shell:shell", "Open a shell, or run the command after `--`, in the container of a replica."),
    "stacks": Entry("stacks:stacks", "Print the current Python stacks of the replicas."),
    "doctor": Entry("doctor:doctor", "Check the cluster, your rights and the namespace, and a job that has problems."),
    "report": Entry("doctor:report", "Write one file for a bug report."),
    "top": Entry("usage:top", "Show what jobs use and do now: GPUs and requested CPUs, step, throughput, step time."),
    "cost": Entry(
        "usage:cost", "Show the GPU and CPU hours of jobs, and how much of that time was productive or lost."
    ),
    "init": Entry("init:init", "Write a first manifest after a few questions."),
    "validate": Entry("validate:validate", "Check TFDistJobs and TFDistSweeps offline."),
    "render": Entry("validate:render", "Print every object that the controller would create."),
    "convert": Entry(
        "convert:convert", "Convert TFJobs to TFDistJobs, and Katib Experiments of TFJobs to TFDistSweeps."
    ),
}
SWEEP_COMMANDS: Final[Mapping[str, Entry]] = {
    "submit": Entry("sweep:submit", "Create a sweep from a manifest."),
    "run": Entry("sweep:run", "Create a sweep, and follow it to its end: `submit`, then `attach`."),
    "attach": COMMANDS["attach"],
    "wait": COMMANDS["wait"],
    "list": COMMANDS["list"],
    "get": COMMANDS["get"],
    "describe": COMMANDS["describe"],
    "results": Entry("sweep:results", "Show the trials of a sweep with their parameters and values."),
    "suspend": COMMANDS["suspend"],
    "resume": COMMANDS["resume"],
    "delete": COMMANDS["delete"],
}


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
