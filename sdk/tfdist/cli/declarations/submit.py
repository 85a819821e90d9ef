"""Commands that start a job: `submit` and `run`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tfdist.cli.cluster import connect
from tfdist.cli.command_line import COMMAND, WithCommand
from tfdist.cli.options import Context, DryRun, Kubeconfig, Namespace

if TYPE_CHECKING:
    from tfdist.cli.commands.submit import Request

submit: Final = typer.Typer()

Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="FILE | -- COMMAND",
        help="A manifest: YAML or JSON, a folder, or - for standard input. Or a command, such as -- python train.py.",
        show_default=False,
    ),
]
Name = Annotated[str | None, typer.Option(metavar="NAME", help="Name of the job; by default that of the script.")]
Workers = Annotated[int | None, typer.Option(metavar="N", min=1, help="Workers that run the command; by default 1.")]
Gpus = Annotated[int | None, typer.Option(metavar="N", min=1, help="GPUs of each worker.", show_default=False)]
Image = Annotated[str | None, typer.Option(metavar="IMAGE", help="Image; by default the trainer image.")]
Code = Annotated[
    Path | None, typer.Option(metavar="FOLDER", help="Folder of code, at most 900 KiB when packed.", show_default=False)
]
Include = Annotated[
    list[str] | None,
    typer.Option(metavar="PATTERN", help="Files of --code to send although they may contain credentials; repeatable."),
]
Env = Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="Environment variable; may be repeated.")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PATH=VALUE", help="Field below spec, such as training.config.epochs=3; repeatable."),
]


@submit.command("submit", cls=WithCommand)
def _submit(
    ctx: typer.Context,
    words: Words = None,
    *,
    name: Name = None,
    workers: Workers = None,
    gpus: Gpus = None,
    image: Image = None,
    code: Code = None,
    include: Include = None,
    env: Env = None,
    set_: Set = None,
    dry_run: DryRun = None,
    follow: Annotated[bool, typer.Option("--follow", help="Follow the job to its end, as `tfdist run` does.")] = False,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> int:
    """Create a job in a cluster, from a manifest or a command.

    A script in the current folder goes with the job, and with --code a folder with all that it imports. The job is
    validated first, and created with its ConfigMaps, or nothing is.

    Exit code: 0 created, 1 the job is invalid, 2 a request failed or a file cannot be read; with --follow that of the
    job.
    """
    from tfdist.cli.commands import submit as command  # noqa: PLC0415  imported on demand

    request = _request(ctx, words, name, workers, gpus, image, code, include, env, set_, namespace)
    return command.execute(request, lambda: connect(namespace, context, kubeconfig), dry_run=dry_run, follow=follow)


@submit.command(cls=WithCommand)
def run(
    ctx: typer.Context,
    words: Words = None,
    *,
    local: Annotated[bool, typer.Option("--local", help="On this machine, without a cluster.")] = False,
    name: Name = None,
    workers: Workers = None,
    gpus: Gpus = None,
    image: Image = None,
    code: Code = None,
    include: Include = None,
    env: Env = None,
    set_: Set = None,
    state: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="With --local: logs, volumes and status.json; default .tfdist/JOB."),
    ] = None,
    volume: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=FOLDER",
            help="With --local: folder of a volume or claim; `checkpoint` is checkpoint.volume.",
        ),
    ] = None,
    command: Annotated[
        str, typer.Option(metavar="COMMAND", help="With --local: entry point of the image, such as 'python train.py'.")
    ] = "",
    in_place: Annotated[
        bool, typer.Option("--in-place", help="With --local: restart a gang in place, within its runPolicy.")
    ] = False,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> int:
    """Run a job and follow it to its end, in a cluster or as processes of this machine.

    In a cluster it is `tfdist submit`, then `tfdist attach`. With --local each replica is a process with the
    environment variables of its pod. Restarts, deadlines, evaluation and the end are those of a cluster. Ctrl-C
    suspends the job: its replicas stop within their grace periods, a second Ctrl-C kills them; no process outlives the
    run.

    Exit code: 0 succeeded, 1 the job is invalid or needs a cluster, 2 a request failed or a file cannot be read, 124 a
    deadline was exceeded, 130 or 143 ended by a signal; otherwise that of the replica that failed the job.
    """
    from tfdist.cli.commands import run as here  # noqa: PLC0415  imported on demand

    if local:
        only_in_a_cluster = {"--name": name, "--gpus": gpus, "--image": image, "--code": code,
                             "--include": include, "--env": env, "--set": set_,
                             "--namespace": namespace, "--context": context, "--kubeconfig": kubeconfig}  # fmt: skip
        _reject(only_in_a_cluster, "cannot be used with --local")
        file, *arguments = _local_words(words or [], ctx.meta[COMMAND])
        return here.execute(
            file, arguments, workers=workers, state=state, volumes=volume or (), entry_point=command, in_place=in_place
        )
    _reject({"--state": state, "--volume": volume, "--command": command, "--in-place": in_place}, "requires --local")
    from tfdist.cli.commands import submit as implementation  # noqa: PLC0415  imported on demand

    request = _request(ctx, words, name, workers, gpus, image, code, include, env, set_, namespace)
    return implementation.execute(request, lambda: connect(namespace, context, kubeconfig), follow=True)


def _request(
    ctx: typer.Context,
    words: list[str] | None,
    name: str | None,
    workers: int | None,
    gpus: int | None,
    image: str | None,
    code: Path | None,
    include: list[str] | None,
    env: list[str] | None,
    values: list[str] | None,
    namespace: str | None,
) -> "Request":
    from tfdist.cli.commands.submit import Request  # noqa: PLC0415  imported on demand
    from tfdist.cli.new_job import JobOptions  # noqa: PLC0415  imported on demand

    options = JobOptions(name=name, workers=workers, gpus=gpus, image=image, env=env or ())
    return Request(words or (), ctx.meta[COMMAND], options, code, include or (), values or (), namespace)


def _local_words(words: list[str], command: list[str]) -> list[str]:
    """Return the file of a local run and its arguments; `-- python train.py` is the script `train.py`."""
    from tfdist.cli.new_job import script_of  # noqa: PLC0415  imported on demand

    if not words and command and (script := script_of(command)) is not None:
        return [script.target, *script.arguments]
    if not words and not command:
        raise typer.BadParameter("give a manifest or a script")
    return [*words, *command]


def _reject(options: dict[str, Any], reason: str) -> None:
    for option, value in options.items():
        if value:
            raise typer.BadParameter(f"{option} {reason}")
