"""`tfdist submit`: creates a job from a manifest or a command, with a folder of code."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tfdist.cli import jobs, manifests
from tfdist.cli.command_job import NewJobOptions, command_job, is_script, script_of, set_values
from tfdist.cli.command_line import command
from tfdist.cli.commands import attach
from tfdist.cli.connection import ClusterOptions, to_copy
from tfdist.cli.documents import STDIN, SUFFIXES, Document
from tfdist.cli.errors import CommandError, CommandExitCode
from tfdist.cli.findings import Finding, findings
from tfdist.cli.jobs import config_map_manifests
from tfdist.cli.kinds import JOB, Reference
from tfdist.cli.options import DryRun
from tfdist.cli.output import collected_warnings, message, one_line, show_warnings
from tfdist.client.client import Client
from tfdist.client.code_archive import CodeArchive, pack, pack_file, pack_with, read_file
from tfdist.client.code_store import store_of
from tfdist.client.errors import Invalid
from tfdist.client.overrides import steps, with_values
from tfdist.client.submission import Submission, prepare
from tfdist.messages import count, join_path

if TYPE_CHECKING:
    from tfdist.client.requirements import Lock

_COMMAND_LINE: Final = "command line"

Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="FILE | -- COMMAND",
        help="A manifest: YAML or JSON, a folder, or - for standard input. Or a command, such as -- python train.py.",
        show_default=False,
    ),
]
Name = Annotated[str | None, typer.Option(metavar="NAME", help="Name of the job; default: the name of the script.")]
Workers = Annotated[int | None, typer.Option(metavar="N", min=1, help="Workers that run the command; default: 1.")]
Gpus = Annotated[int | None, typer.Option(metavar="N", min=1, help="GPUs of each worker.", show_default=False)]
Image = Annotated[str | None, typer.Option(metavar="IMAGE", help="Image; default: the trainer image.")]
Code = Annotated[
    Path | None, typer.Option(metavar="FOLDER", help="Folder of code, at most 8 MiB when packed.", show_default=False)
]
CodeStore = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="s3:// or gs://bucket/prefix that the code is uploaded to, of up to 1 GiB; default: $TFDIST_CODE_STORE.",
    ),
]
Include = Annotated[
    list[str] | None,
    typer.Option(metavar="PATTERN", help="Files of --code to send although they may contain credentials; repeatable."),
]
RequirementsFile = Annotated[
    Path | None,
    typer.Option(
        "--requirements",
        metavar="FILE",
        help="Packages that each pod installs: a file of pip, locked now with the hashes of the wheels.",
    ),
]
Env = Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="Environment variable; may be repeated.")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PATH=VALUE", help="Field below spec, such as training.config.epochs=3; repeatable."),
]


@dataclass(frozen=True, slots=True)
class SubmitOptions:
    """The request of the user: a manifest or a command, and changes of it."""

    words: Sequence[str]
    """Arguments before `--`: a manifest, or a script with its arguments."""
    command: Sequence[str] = ()
    """Arguments after `--`."""
    options: NewJobOptions = field(default_factory=NewJobOptions)
    code: Path | None = None
    include: Sequence[str] = ()
    """Files of `code` that go with the job although they may contain credentials."""
    code_store: str | None = None
    """URL of `--code-store`."""
    values: Sequence[str] = ()
    """Values of `--set`."""
    namespace: str | None = None
    requirements: Path | None = None


@command
def submit(
    connection: ClusterOptions,
    words: Words = None,
    *,
    after_dashes: list[str],
    name: Name = None,
    workers: Workers = None,
    gpus: Gpus = None,
    image: Image = None,
    code: Code = None,
    include: Include = None,
    code_store: CodeStore = None,
    requirements: RequirementsFile = None,
    env: Env = None,
    set_: Set = None,
    dry_run: DryRun = None,
    follow: Annotated[bool, typer.Option("--follow", help="Follow the job to its end, as `tfdist run` does.")] = False,
) -> int:
    """Create a job in a cluster, from a manifest or a command.

    A script in the current folder is sent with the job; --code sends a folder with everything that the script imports.
    The job is validated first. It is created with its ConfigMaps, or nothing is created.

    Exits 0 when the job is created, or 1 if it is invalid, 2 if a request fails or a file cannot be read; with
    --follow, with the exit code of the job.
    """
    options = NewJobOptions(name=name, workers=workers, gpus=gpus, image=image, env=env or ())
    request = SubmitOptions(
        words or (),
        after_dashes,
        options,
        code,
        include or (),
        code_store,
        set_ or (),
        connection.namespace,
        requirements,
    )
    return create(request, connection.client, dry_run=dry_run, follow=follow)


def create(
    request: SubmitOptions, connected: Callable[[], Client], *, dry_run: str | None = None, follow: bool = False
) -> int:
    """Submit a job and return the exit code: 0, or 1 if it is invalid; with `follow` the exit code of the job.

    Args:
        request: the job.
        connected: returns the client; it is called only for a job that is valid.
        dry_run: `client` prints the objects, `server` has the API server check them.
        follow: whether to follow the job to its end.
    """
    submission = _submission(request)
    if submission is None:
        return CommandExitCode.NEGATIVE
    return create_prepared(submission, connected, dry_run=dry_run, follow=follow)


def _submission(request: SubmitOptions) -> Submission | None:
    """Return the objects to create, or None for an invalid job, whose errors have been printed."""
    words = [*request.words, *request.command]
    if not words:
        raise CommandError("give a manifest FILE, or -- and a command, such as -- python train.py")
    if _is_manifest(words[0]):
        document, others = _from_file(words, request)
        if document is None:
            return None
    else:
        document, others = _from_command(words, request), []
    values = set_values(request.values)
    if request.options.name and others:
        values["metadata.name"] = request.options.name
    try:
        job = with_values(document.value, values)
    except Invalid as error:
        raise CommandError(f"--set {error}") from None
    _check_namespace(job, request.namespace)
    lock = _lock(job, request)
    archive = _archive(job, request, lock)
    if archive is None and request.code is None and not others:
        archive = _script_archive(words, lock, store_of(request.code_store))
    if lock is not None:
        lock.check(archive)
    submission = _prepare(job, request, archive, others)
    return submission if _is_valid(replace(document, value=submission.job), values) else None


def _is_manifest(word: str) -> bool:
    return word == STDIN or word.endswith(SUFFIXES) or Path(word).is_dir()


def _from_file(words: Sequence[str], request: SubmitOptions) -> tuple[Document | None, list[Document]]:
    file, *remaining = words
    if remaining:
        raise CommandError(f"{remaining[0]}: {file} is a manifest; set training.args in it for arguments")
    if request.options.given:
        option = request.options.given[0]
        raise CommandError(f"{option}: {file} is a manifest; change a field by --set, such as worker.replicas=4")
    inputs = jobs.read(file)
    jobs.report_not_created(inputs, "TFDistJob")
    selected = jobs.unchecked(inputs, file, "submit")
    return (jobs.only(selected, file, "submit") if selected else None), inputs


def _from_command(words: Sequence[str], request: SubmitOptions) -> Document:
    if request.words and not is_script(request.words[0]):
        raise CommandError(f"{request.words[0]}: neither a manifest nor a script; write -- before a command")
    return Document(command_job(words, request.options), _COMMAND_LINE)


def _check_namespace(job: Mapping[str, Any], namespace: str | None) -> None:
    job_namespace = (job.get("metadata") or {}).get("namespace")
    if namespace and job_namespace and job_namespace != namespace:
        raise CommandError(
            f"--namespace {namespace}: the manifest has the namespace {job_namespace}; change one of them"
        )


def _lock(job: dict[str, Any], request: SubmitOptions) -> "Lock | None":
    """Return the locked packages of `--requirements`, which go with the code."""
    if request.requirements is None:
        return None
    from tfdist.client.requirements import lock_for  # noqa: PLC0415  most jobs have no packages

    return lock_for(job, request.requirements, request.code)


def _archive(job: dict[str, Any], request: SubmitOptions, lock: "Lock | None") -> CodeArchive | None:
    """Return the packed folder of `--code`; the path of a script in it becomes relative to it."""
    if request.code is None:
        if request.include:
            raise CommandError("--include: it names files of --code; add --code FOLDER")
        return None
    training = (job.get("spec") or {}).get("training")
    if not isinstance(training, dict) or not (training.get("script") or training.get("program")):
        raise CommandError("--code: only a script or program uses a folder of code; write -- python SCRIPT.py")
    generated = lock.files if lock else None
    archive = pack(request.code, request.include, store_of(request.code_store), generated)
    if archive.warning:
        message(archive.warning)
    script = training.get("script")
    if isinstance(script, str) and script.endswith(".py") and not script.startswith("/"):
        inside = _inside(script, request.code)
        if inside not in archive.files:
            raise CommandError(
                f"{script}: the code of {request.code} has no such file; write its path in this folder, and check "
                ".gitignore and .tfdistignore"
            )
        training["script"] = inside
    return archive


def _inside(script: str, folder: Path) -> str:
    """Return the path of a script in the folder of code; it may be given relative to the current folder."""
    if (folder / script).is_file():
        return script
    path = Path(script).resolve()
    return path.relative_to(folder.resolve()).as_posix() if path.is_relative_to(folder.resolve()) else script


def _script_archive(words: Sequence[str], lock: "Lock | None", store: str | None) -> CodeArchive | None:
    """Return the script of a command, packed alone."""
    script = script_of(words)
    if script is None or not script.is_relative_file:
        return None
    if not Path(script.target).is_file():
        raise CommandError(f"{script.target}: no such file; the path of a script in the image is absolute")
    if ".." in Path(script.target).parts:
        raise CommandError(f"{script.target}: outside of the current folder; give its folder by --code")
    if lock is not None:
        return pack_with({script.target: read_file(Path(script.target))} | lock.files, None, store=store)
    return pack_file(script.target, Path(), store)


def _prepare(
    job: dict[str, Any], request: SubmitOptions, archive: CodeArchive | None, inputs: Sequence[Document]
) -> Submission:
    namespace = (job.get("metadata") or {}).get("namespace") or request.namespace or ""
    required_maps = config_map_manifests(inputs, namespace)
    submission = prepare(job, request.namespace or "", archive, required_maps)
    if archive is not None:
        size = f"{len(archive.content) / 1024:.1f} KiB"
        message(f"code: {count(len(archive.files), 'file')}, {size} in {_place(submission)}")
    return submission


def _place(submission: Submission) -> str:
    """Return where the code is, for a message."""
    if submission.upload is not None:
        return submission.upload.url
    first = f"configmap/{submission.code[0]['metadata']['name']}"
    others = len(submission.code) - 1
    return f"{first} and {others} more" if others else first


def _is_valid(document: Document, values: Mapping[str, Any]) -> bool:
    """Return whether a job is valid; print its errors and warnings."""
    paths = {join_path(steps(path)): path for path in values}
    problems = list(findings(document))
    for problem in problems:
        _report(problem, paths)
    return all(problem.severity == "warning" for problem in problems)


def _report(finding: Finding, paths: Mapping[str, str]) -> None:
    kind = "warning: " if finding.severity == "warning" else ""
    text = f"{kind}{finding.path}: {one_line(finding.message)}"
    for path, option in paths.items():
        if finding.path == path or finding.path.startswith((f"{path}.", f"{path}[")):
            message(f"--set {option}: {text}")
            return
    if finding.file == _COMMAND_LINE:
        message(text)
    else:
        finding.print(sys.stderr)


def create_prepared(
    submission: Submission, connected: Callable[[], Client], *, dry_run: str | None, follow: bool = False
) -> int:
    """Create a job with what it needs, or nothing, and return the exit code: 0, or with `follow` the job's.

    Args:
        submission: the job.
        connected: returns the client; it is not called for a dry run of the client.
        dry_run: `client` prints the objects, `server` has the API server check them.
        follow: whether to follow the job to its end.
    """
    if dry_run == "client":
        objects = (*submission.config_maps, *submission.code, submission.job)
        manifests.write_yaml(sys.stdout, [(manifest, []) for manifest in objects])
        return CommandExitCode.OK
    client = connected()
    with collected_warnings() as caught:
        handle = client.jobs.create(submission, dry_run=dry_run is not None)
    show_warnings(caught)
    if dry_run is not None:
        print(f"{JOB.resource}/{handle.name} created (server dry run)")
        return CommandExitCode.OK
    print(f"{JOB.resource}/{handle.name} created", flush=True)
    inside = client.in_namespace(handle.namespace)
    if follow:
        return attach.follow(inside, Reference(JOB, handle.name))
    message(f"follow it: {to_copy(inside, 'attach', handle.name)}")
    return CommandExitCode.OK
