"""`tfdist validate` and `tfdist render`: what manifests are worth and what the controller makes of them, offline."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

import typer

from tfdist import validation
from tfdist.api.v1 import TFDistJob
from tfdist.cli import documents, jobs, manifests
from tfdist.cli.command_line import command
from tfdist.cli.documents import Document, DocumentKind, classify
from tfdist.cli.errors import CommandExitCode, DocumentError
from tfdist.cli.findings import Finding, findings
from tfdist.cli.manifests import write_json_document
from tfdist.cli.options import File, Files, ManifestFormat
from tfdist.cli.output import message
from tfdist.desired.objects import objects
from tfdist.messages import count

PLACEHOLDER_UID: Final = "00000000-0000-0000-0000-000000000000"
_COMMENT: Final = (
    f"TFDistJob {{}} has no uid yet: {PLACEHOLDER_UID} stands for the one that the API server gives it.\n"
    "To run the job, apply the TFDistJob; these objects are what the controller makes of it."
)


@command
def validate(
    files: Files,
    *,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Print errors only: no warnings, no summary.")] = False,
    output: Annotated[Literal["text", "json"], typer.Option("-o", "--output", help="Output format.")] = "text",
) -> int:
    """Check TFDistJobs and TFDistSweeps offline.

    Prints a line FILE:LINE: PATH: MESSAGE for each problem, and a summary on standard error. A line with `warning:`
    is about a valid document and does not change the exit code. Documents of other kinds are skipped.

    Exits 0 if all are valid, or 1 if there are problems, 2 if a file cannot be read.
    """
    report = _Report(in_json=output == "json", quiet=quiet)
    for document in documents.read_all(files, report.add_unreadable):
        report.add(document)
    report.finish()
    return (
        CommandExitCode.FAILED
        if report.files_unreadable
        else CommandExitCode.NEGATIVE
        if report.problems
        else CommandExitCode.OK
    )


@dataclass
class _Report:
    """Prints findings and counts them for the summary."""

    in_json: bool
    quiet: bool
    valid: int = 0
    invalid: int = 0
    skipped: int = 0
    problems: int = 0
    warnings: int = 0
    files_unreadable: int = 0

    def __post_init__(self) -> None:
        self._list: list[Mapping[str, object]] = []

    def add(self, document: Document) -> None:
        problems = sorted(findings(document))
        warnings = [finding for finding in problems if finding.severity == "warning"]
        for finding in problems:
            if not (self.quiet and finding.severity == "warning"):
                self._print(finding)
        self.problems += len(problems) - len(warnings)
        self.warnings += len(warnings)
        if len(problems) > len(warnings):
            self.invalid += 1
        elif (kind := classify(document.value)) in {DocumentKind.JOB, DocumentKind.SWEEP}:
            self.valid += 1
        else:
            self.skipped += 1
            if kind is DocumentKind.TFJOB and not self.quiet:
                line = document.locate("kind").line
                message(
                    f"{document.source}:{line}: a TFJob; `tfdist convert {document.source}` converts it to a TFDistJob"
                )

    def add_unreadable(self, error: DocumentError) -> None:
        self.files_unreadable += 1
        if self.in_json:
            line, column = error.position or (None, None)
            place = {"file": error.source, "line": line, "column": column}
            rest = {"document": None, "path": "", "message": error.message, "severity": "error"}
            self._list.append({**place, **rest})
        message(error)

    def finish(self) -> None:
        if self.in_json:
            write_json_document(sys.stdout, self._list)
        if not self.quiet:
            message(self._summary())

    def _print(self, finding: Finding) -> None:
        if self.in_json:
            self._list.append(finding._asdict())
        else:
            finding.print(sys.stdout)

    def _summary(self) -> str:
        jobs = self.valid + self.invalid
        parts = []
        if self.problems:
            parts.append(f"{count(self.problems, 'problem')} in {self.invalid} of {count(jobs, 'document')}")
        elif jobs:
            parts.append(f"{count(jobs, 'document')} {'is' if jobs == 1 else 'are'} valid")
        elif not self.files_unreadable:
            parts.append("no TFDistJob or TFDistSweep found")
        if self.warnings:
            parts.append(count(self.warnings, "warning"))
        if self.skipped:
            parts.append(f"{count(self.skipped, 'document')} of other kinds skipped")
        if self.files_unreadable:
            parts.append(f"{count(self.files_unreadable, 'file')} could not be read")
        return "; ".join(parts)


@command
def render(
    file: File,
    namespace: Annotated[
        str, typer.Option("-n", "--namespace", metavar="NAMESPACE", help="Namespace of jobs that set none.")
    ] = "default",
    image: Annotated[
        str, typer.Option(metavar="IMAGE", help="Trainer image of jobs that set no image.")
    ] = "tfdist/trainer",
    output: ManifestFormat = "yaml",
) -> int:
    """Print every object that the controller would create.

    The objects are in the order in which the controller creates them. Nothing is sent to a cluster.

    Exits 0, or 1 if a job is invalid or there are no jobs, 2 if the file cannot be read.
    """
    selected = jobs.select(jobs.read(file), file, "render")
    if not selected:
        return CommandExitCode.NEGATIVE
    rendered = []
    for document in selected:
        job = validation.parse(_with_defaults(document.value, namespace))
        comment = "" if document.value["metadata"].get("uid") else _COMMENT.format(job.metadata.name)
        rendered += _with_comment(job, image, comment)
    if output == "json":
        manifests.write_json(sys.stdout, [manifest for manifest, _ in rendered])
    else:
        manifests.write_yaml(sys.stdout, rendered)
    return CommandExitCode.OK


def _with_defaults(manifest: dict[str, Any], namespace: str) -> dict[str, Any]:
    """Return the manifest with namespace and uid, which the API server would add."""
    metadata = {key: value for key, value in manifest["metadata"].items() if value}
    return manifest | {"metadata": {"namespace": namespace, "uid": PLACEHOLDER_UID} | metadata}


def _with_comment(job: TFDistJob, image: str, comment: str) -> list[tuple[dict[str, Any], list[str]]]:
    rendered = objects(job, default_image=image)
    return [(item, [comment] if comment and not number else []) for number, item in enumerate(rendered)]
