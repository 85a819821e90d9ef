"""Options and arguments that commands share."""

import re
from typing import Annotated, Any, Final, Literal

import typer

from tfdist.cli import completion
from tfdist.cli.errors import CommandError

_UNITS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}

JobName = Annotated[str, typer.Argument(metavar="JOB", help="Name of the job.", autocompletion=completion.job_names)]
Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="Name of a job, or sweep/NAME.", show_default=False, autocompletion=completion.names
    ),
]
Names = Annotated[
    list[str],
    typer.Argument(
        metavar="NAME", help="Names of jobs, or sweep/NAME.", show_default=False, autocompletion=completion.names
    ),
]
CONNECTION: Final[dict[str, Any]] = {
    "namespace": Annotated[
        str | None,
        typer.Option(
            "-n",
            "--namespace",
            metavar="NAMESPACE",
            help="Namespace; default: the one of the context.",
            show_default=False,
            autocompletion=completion.namespaces,
        ),
    ],
    "context": Annotated[
        str | None,
        typer.Option(
            metavar="CONTEXT",
            help="Context of the kubeconfig; default: the current one.",
            show_default=False,
            autocompletion=completion.contexts,
        ),
    ],
    "kubeconfig": Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Default: KUBECONFIG, then ~/.kube/config.", show_default=False),
    ],
}
"""The options of each command that connects to a cluster."""
OptionalJobName = Annotated[
    str | None,
    typer.Argument(
        metavar="JOB",
        help="Name of a job; default: all jobs of the namespace.",
        show_default=False,
        autocompletion=completion.job_names,
    ),
]
ManifestFormat = Annotated[Literal["yaml", "json"], typer.Option("-o", "--output", help="Output format.")]
DryRun = Annotated[
    Literal["client", "server"] | None,
    typer.Option(help="`client` prints the objects; `server` has the API server check them.", show_default=False),
]
Timeout = Annotated[
    str | None, typer.Option(metavar="DURATION", help="Longest wait, such as 90s, 10m or 1h; default: no limit.")
]
AllNamespaces = Annotated[bool, typer.Option("-A", "--all-namespaces", help="All namespaces.")]
AllReplicas = Annotated[bool, typer.Option("--all", help="Show all replicas of a job that has more than 16.")]
Files = Annotated[list[str], typer.Argument(metavar="FILE", help="YAML or JSON; a folder; - for standard input.")]
File = Annotated[str, typer.Argument(metavar="FILE", help="YAML or JSON; a folder; - for standard input.")]


def replica_argument(help_text: str) -> Any:
    """Return the argument for one replica of a job, with its completion."""
    return typer.Argument(metavar="ROLE-INDEX", help=help_text, show_default=False, autocompletion=completion.replicas)


def seconds(text: str, option: str = "--timeout") -> float:
    """Return a duration such as `90s`, `10m` or `1h`, the value of an option, in seconds.

    Raises:
        CommandError: it is not a duration.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", text)
    if match is None:
        raise CommandError(f"{option} {text}: write a duration such as 90s, 10m or 1h")
    return float(match[1]) * _UNITS[match[2]]
