"""Options and arguments that commands share."""

from typing import Annotated, Literal

import typer

from tfdist.cli import completion

JobName = Annotated[str, typer.Argument(metavar="JOB", help="Name of the job.", autocompletion=completion.job_names)]
Namespace = Annotated[
    str | None,
    typer.Option(
        "-n",
        "--namespace",
        metavar="NAMESPACE",
        help="Namespace; by default that of the context.",
        show_default=False,
        autocompletion=completion.namespaces,
    ),
]
Context = Annotated[
    str | None,
    typer.Option(
        metavar="CONTEXT",
        help="Context of the kubeconfig; by default the current one.",
        show_default=False,
        autocompletion=completion.contexts,
    ),
]
Kubeconfig = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="By default KUBECONFIG, then ~/.kube/config.", show_default=False),
]
DryRun = Annotated[
    Literal["client", "server"] | None,
    typer.Option(help="`client` prints the objects; `server` has the API server check them.", show_default=False),
]
